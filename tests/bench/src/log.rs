//! `log`: a run that gathers a kilobyte a step. A step must not pay for what was gathered before.

use std::sync::Arc;
use std::time::Instant;

use stepwell::Registry;
use stepwell_core::Status;

use crate::chain::log_bytes_at_the_ends;
use crate::flows::{Growing, LINE_BYTES, Length, Probe};
use crate::numbers::{float, per};
use crate::place::{Place, runtime};
use crate::sheet::{Aim, Sheet};
use crate::{Outcome, Size, folder};

const STEPS: u64 = 2_000;
const WINDOW: usize = 500;

pub(crate) fn measure(sheet: &mut Sheet<'_>, size: Size) -> Outcome<()> {
    let (steps, dir) = (size.of(STEPS).max(1_200), folder()?);
    let probe = Arc::<Probe>::default();
    let place = Place::open(dir.path(), Registry::new().with(Growing(Arc::clone(&probe))), None)?;
    probe.watch(&place.local, dir.path())?;
    let start = Instant::now();
    let ended = runtime()?.block_on(place.while_working(async {
        let run = place.start("growing", &Length { run: 0, steps }).await?;
        probe.ends(1).await;
        place.wait_for(&run).await
    }))?;
    let took = start.elapsed();
    let (_, marks) = probe.take();
    let (begin, end) = log_bytes_at_the_ends(&marks, WINDOW);
    sheet.check("the run has completed", matches!(ended.progress.status, Status::Completed { .. }));
    sheet.figure("steps", float(steps) / took.as_secs_f64(), "/s", Aim::None);
    sheet.figure("bytes of the log at the end", steps * LINE_BYTES as u64, "B", Aim::None);
    sheet.figure("bytes handed to the store a step", per(ended.progress.usage.bytes, steps), "B", Aim::AtMost(2_048.0));
    sheet.figure("bytes written to the disk's log a step, at the beginning", begin, "B", Aim::None);
    sheet.figure("the same, at the end", end, "B", Aim::None);
    sheet.figure("end / beginning", end / begin, "", Aim::AtMost(1.1));
    Ok(())
}
