//! `stepwell unknowns`: effects that may have happened, of one run or of all that have not ended.

use stepwell::Registry;

use super::look::{look, say_more};
use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::ShownUnknowns;

pub(super) async fn run(cli: &Cli, args: &args::Unknowns, out: Output) -> Result<Exit, CliError> {
    let (client, now) = (Backend::open_existing(cli).await?.client(Registry::new()), now());
    let (unknowns, more) = look(&client, args.run.as_ref(), args.limit, now).await?;
    if unknowns.is_empty() && !out.is_json() {
        say("no effect is open");
    } else {
        out.data(&ShownUnknowns { unknowns, now })?;
    }
    if more {
        say_more(args.limit);
    }
    Ok(Exit::Done)
}
