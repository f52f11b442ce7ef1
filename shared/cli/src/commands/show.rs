//! `stepwell show`: one run, and what has happened to it.

use stepwell_core::Revision;
use stepwell_http::view::{Contents, EntryView};
use stepwell_samples::Outside;

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::ShownRun;
use crate::workflows::Workflows;

pub(super) async fn run(cli: &Cli, args: &args::Show, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let backend = Backend::open_existing(cli).await?;
    // The workflows are asked what they may spend; nothing outside is called.
    let client = backend.client(workflows.registry(&Outside::default())?);
    let run = client.get(&args.run).await?;
    let history = if args.history { Some(client.history(&args.run, Revision(0)).await?) } else { None };
    let budget = client.budget(&run.workflow);
    let mut view = ShownRun::load(&client, &run, budget, now(), backend.flag()).await?;
    view.history = history.as_deref().map(|entries| entries.iter().map(EntryView::from).collect());
    if args.state {
        let contents = Contents { client: &client, store: &*backend.ports().store, run: &args.run };
        view = view.in_full(&contents).await;
    }
    out.data(&view)?;
    Ok(Exit::Done)
}
