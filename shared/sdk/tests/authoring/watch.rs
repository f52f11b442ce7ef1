//! Who watches a registry sees what goes to the outside, when it goes, and nothing else.

use std::sync::{Arc, Mutex};

use stepwell::host::{EffectRecord, Outgoing, PlaceText, StepNext, Watch, WorkflowName};
use stepwell::prelude::*;
use stepwell::{Call, fingerprint};
use stepwell_core::Class;

use crate::host::{FakeHost, json};

/// What was seen, and what the outside has heard, in one order.
type Told = Arc<Mutex<Vec<String>>>;

struct Watcher(Told);

/// Tells when what it stands for has ended.
struct Ended(Told);

impl Drop for Ended {
    fn drop(&mut self) {
        tell(&self.0, "ended");
    }
}

impl Watch for Watcher {
    fn goes_out(&self, outgoing: &Outgoing<'_>) -> Option<Box<dyn Send>> {
        let Outgoing { what, name, class, parameters, .. } = *outgoing;
        assert_eq!(class, Class::Reconcilable);
        assert_eq!(parameters, Some(fingerprint("to Ada").unwrap()));
        tell(&self.0, &format!("{what:?} of {name} is seen"));
        Some(Box::new(Ended(Arc::clone(&self.0))))
    }
}

fn tell(told: &Told, what: &str) {
    told.lock().unwrap().push(what.to_owned());
}

struct Payer(Told);

impl Workflow for Payer {
    const NAME: &'static str = "payer";
    type Input = ();
    type State = ();
    type Step = ();
    type Output = u8;

    fn begin(&self, (): ()) -> ((), ()) {
        ((), ())
    }

    async fn step(&self, (): (), (): &mut (), cx: &Cx) -> StepResult<Self> {
        let hear = async |what: &'static str, _: Call<'_>| {
            tell(&self.0, what);
            tokio::task::yield_now().await;
            Err::<u8, _>(CallError::unknown("the line went dead"))
        };
        let pay = cx.effect("pay").key("order-7").with("to Ada");
        let pay = pay.reconcile(async |call| {
            hear("asked", call).await.ok();
            Ok::<_, CallError>(Asked::Happened(7))
        });
        Ok(complete(pay.call(async |call| hear("called", call).await).await?))
    }
}

/// One attempt, with the effects that earlier ones have recorded.
async fn attempt(registry: &Registry, host: &Arc<FakeHost>, journal: Vec<EffectRecord>) -> Vec<EffectRecord> {
    let workflow = registry.get(&WorkflowName::new("payer").unwrap()).unwrap();
    assert_eq!((workflow.name().as_str(), workflow.version(), workflow.keeps_states()), ("payer", 1, false));
    let prepared = workflow.prepare(PlaceText::Fresh { input: json(&().into()), at: None });
    let prepared = prepared.unwrap_or_else(|error| panic!("{error:?}"));
    let cx = Arc::new(host.visit(|visiting| visiting.journal = journal));
    let ended = prepared.run(Arc::clone(&cx)).await;
    if let Ok(next) = ended {
        assert!(matches!(next, StepNext::Complete { .. }));
    }
    cx.recorded().journal
}

#[tokio::test]
async fn calls_and_questions_are_seen_before_they_go_and_until_they_end() {
    let told = Told::default();
    let watch: Arc<dyn Watch> = Arc::new(Watcher(Arc::clone(&told)));
    let registry = Registry::new().with(Payer(Arc::clone(&told))).watched(&watch);
    let host = FakeHost::new();
    let unknown = attempt(&registry, &host, Vec::new()).await;
    assert_eq!(*told.lock().unwrap(), ["Call of pay is seen", "called", "ended"]);

    told.lock().unwrap().clear();
    host.pass(hours(1));
    let known = attempt(&registry, &host, unknown).await;
    assert_eq!(*told.lock().unwrap(), ["Ask of pay is seen", "asked", "ended"]);

    // What is on record goes nowhere.
    told.lock().unwrap().clear();
    attempt(&registry, &host, known).await;
    assert_eq!(*told.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_engine_does_not_let_through_is_not_seen() {
    let told = Told::default();
    let watch: Arc<dyn Watch> = Arc::new(Watcher(Arc::clone(&told)));
    let registry = Registry::new().with_shared(Arc::new(Payer(Arc::clone(&told)))).watched(&watch);
    let host = FakeHost::new();
    host.refuse_intents();
    attempt(&registry, &host, Vec::new()).await;
    assert_eq!(*told.lock().unwrap(), Vec::<String>::new());
}
