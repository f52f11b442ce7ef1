//! How a run ends that does not complete, for people: what was taken back, what stands, what may have happened.

use std::fmt;

use stepwell_http::view::{CauseView, CertificateView, CertifiedView, UndoView, UndoingView};

use super::{Text, count, harmless, line};

impl fmt::Display for Text<'_, CertificateView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CertificateView { confirmed, failed, unfinished_step, lost_attempt, .. } = self.0;
        let CertificateView { uncertain, never_sent, undone, stands, .. } = self.0;
        let known = format_args!("effects: {confirmed} confirmed, {failed} failed").to_string();
        line(f, "certificate", format_args!("ended at step {}; {known}", harmless(unfinished_step)))?;
        if let Some(since) = lost_attempt {
            let lost = format_args!("a worker died in that step, begun at {since}: it may have made calls").to_string();
            line(f, "uncertain", lost)?;
        }
        for effect in uncertain {
            let until = effect.until.map(|until| format!("; its call waited until {until} at the latest"));
            let until = until.unwrap_or_default();
            line(f, "uncertain", format_args!("{}, may have happened{until}{}", Text(effect), signed_off(effect)))?;
        }
        write_ended(f, never_sent, undone, stands)
    }
}

impl fmt::Display for Text<'_, UndoingView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UndoingView { cause, step, undone, stands, left, never_sent, lost_attempt } = self.0;
        let cause = match cause {
            CauseView::Failed(failure) => format!("it has failed, {}", Text(failure)),
            CauseView::Cancelled => "it is to end".into(),
        };
        let stage = stage(undone, stands, left);
        line(f, "undoing", format_args!("{stage}, since at step {} {cause}", harmless(step)))?;
        if let Some(since) = lost_attempt {
            let lost = format_args!("a worker died in that step, begun at {since}: it may have made calls").to_string();
            line(f, "uncertain", lost)?;
        }
        write_ended(f, never_sent, undone, stands)?;
        write_stack(f, "still to undo", left)
    }
}

/// How far it is, by name: what has no compensation is none of it.
fn stage(undone: &[CertifiedView], stands: &[CertifiedView], left: &[UndoView]) -> String {
    let certified = |effects: &[CertifiedView]| effects.iter().map(|effect| effect.name.clone()).collect();
    let stages: [(&str, Vec<String>); 3] = [
        ("taken back", certified(undone)),
        ("stands", certified(stands)),
        ("still to be taken back", left.iter().map(|undo| undo.name.clone()).collect()),
    ];
    let stages = stages.iter().filter(|(_, names)| !names.is_empty());
    let stages: Vec<String> = stages.map(|(what, names)| format!("{what}: {}", harmless(names.join(", ")))).collect();
    if stages.is_empty() { "nothing was taken back".into() } else { stages.join("; ") }
}

fn write_ended(
    f: &mut fmt::Formatter<'_>,
    never_sent: &[CertifiedView],
    undone: &[CertifiedView],
    stands: &[CertifiedView],
) -> fmt::Result {
    for effect in never_sent {
        line(f, "never sent", Text(effect))?;
    }
    for effect in undone {
        line(f, "undone", Text(effect))?;
    }
    for effect in stands {
        let note = effect.note.as_deref().unwrap_or("nobody said why");
        line(f, "stands", format_args!("{}, {}", Text(effect), harmless(note)))?;
    }
    Ok(())
}

/// What is on the stack, the next first.
pub(super) fn write_stack(f: &mut fmt::Formatter<'_>, label: &str, stack: &[UndoView]) -> fmt::Result {
    stack.iter().try_for_each(|UndoView { name, class, key, attempts, step }| {
        let calls = count(u64::from(*attempts), "call");
        let (name, step) = (harmless(name), harmless(step));
        line(f, label, format_args!("{name} ({class}), {calls}, key {key}, by step {step}"))
    })
}

fn signed_off(effect: &CertifiedView) -> String {
    effect.signed_off_by.as_ref().map(|who| format!("; signed off by {}", harmless(who))).unwrap_or_default()
}

impl fmt::Display for Text<'_, CertifiedView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CertifiedView { name, class, attempts, key, .. } = self.0;
        write!(f, "{} ({class}), {}", harmless(name), count(u64::from(*attempts), "call"))?;
        key.iter().try_for_each(|key| write!(f, ", key {key}"))
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::history::LineOutcome;
    use stepwell_core::{Certificate, CertifiedEffect, Class, EffectKey, Timestamp};

    use super::*;

    #[test]
    fn what_stands_is_not_called_taken_back() {
        let effect = |name: &str| CertifiedView {
            name: name.into(),
            class: "once",
            outcome: "succeeded",
            attempts: 1,
            key: None,
            until: None,
            signed_off_by: None,
            note: None,
        };
        let left =
            UndoView { name: "hold".into(), class: "once", key: "k".into(), attempts: 1, step: "Release".into() };
        let told = stage(&[effect("reserve"), effect("mail")], &[effect("ship")], &[left]);
        assert_eq!(told, "taken back: reserve, mail; stands: ship; still to be taken back: hold");
        assert_eq!(stage(&[], &[effect("ship")], &[]), "stands: ship");
    }

    #[test]
    fn a_certificate_tells_all_that_is_known_and_does_not_guess() {
        let effect = |name: &str, outcome| CertifiedEffect {
            name: name.into(),
            class: Class::Once,
            outcome,
            attempts: 1,
            key: EffectKey::parse(&"0".repeat(32)),
            until: Some(Timestamp(0)),
            signed_off_by: Some("ada".into()),
            note: Some("by bob: it is sold".into()),
        };
        let certificate = Certificate {
            confirmed: 3,
            failed: 1,
            uncertain: vec![effect("pay", LineOutcome::Unknown)],
            never_sent: vec![effect("mail", LineOutcome::Failed)],
            undone: vec![effect("reserve", LineOutcome::Succeeded)],
            stands: vec![effect("ship", LineOutcome::Succeeded)],
            step: "Pay".into(),
            lost_attempt: Some(Timestamp(0)),
        };
        let text = Text(&CertificateView::from(&certificate)).to_string();
        let text = anstream::adapter::strip_str(&text).to_string();
        let (key, epoch) = ("0".repeat(32), "1970-01-01T00:00:00.000Z");
        let lines = [
            "certificate ended at step Pay; effects: 3 confirmed, 1 failed".into(),
            format!("uncertain   a worker died in that step, begun at {epoch}: it may have made calls"),
            format!(
                "uncertain   pay (once), 1 call, key {key}, may have happened; its call waited until {epoch} at the latest; signed off by ada"
            ),
            format!("never sent  mail (once), 1 call, key {key}"),
            format!("undone      reserve (once), 1 call, key {key}"),
            format!("stands      ship (once), 1 call, key {key}, by bob: it is sold"),
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
