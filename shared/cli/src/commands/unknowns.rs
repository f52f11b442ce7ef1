//! `stepwell unknowns`: effects that may have happened, of one run or of all that have not ended.

use stepwell::Registry;

use super::look::{look, say_more};
use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::ShownUnknowns;

pub(super) async fn run(cli: &Cli, args: &args::Unknowns, out: Output) -> Result<Exit, CliError> {
    let backend = Backend::open_existing(cli).await?;
    let (client, now) = (backend.client(Registry::new()), now());
    let (unknowns, more) = look(&client, args.run.as_ref(), args.limit, now).await?;
    if unknowns.is_empty() && !out.is_json() {
        say("no effects that may have happened");
    } else {
        out.data(&ShownUnknowns { unknowns, now, flag: backend.flag() })?;
    }
    if more {
        say_more(args.limit);
    }
    Ok(Exit::Done)
}
