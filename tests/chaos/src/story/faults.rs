//! What goes wrong in the story, as its seed decides.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cast::{Cast, Part};
use super::errand::LEASE;
use super::home::Home;
use super::proxy::{Proxy, Weather};

/// The share of requests that have a fate at any time.
const ODDS: f64 = 0.01;

/// That share in a storm.
const STORM: f64 = 0.4;

/// The longest that a process is frozen: more than twice a lease, and less than what a call is given to settle.
const FROZEN_MAX: Duration = Duration::from_millis(1_400);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL, and another one in its place.
    Killed(Part),
    /// SIGSTOP for longer than a lease, then SIGCONT.
    Frozen(Part),
    /// No file may grow, for some time.
    DiskFull(Part),
    /// Many requests have a fate, for some time.
    Storm(Line),
    /// Nobody gets through, for some time.
    Cut(Line),
    /// All processes are killed at once, and started again on what they have left.
    Restart,
    /// All stop at one moment; what is on the disk then is all that is left.
    PowerCut,
}

/// A line on which there is a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// Between workers and the outside.
    Outside,
    /// Between clients and the API.
    Front,
    /// Between processes and the backend, where that is not on this machine's disk.
    Backend,
}

impl Fault {
    /// The words for it, in reports.
    pub fn name(self) -> String {
        let part = |part: Part| match part {
            Part::Worker => "workers",
            Part::Sweeper => "sweepers",
            Part::Api => "APIs",
        };
        let line = |line: Line| match line {
            Line::Outside => "to the outside",
            Line::Front => "to the API",
            Line::Backend => "to the backend",
        };
        match self {
            Self::Killed(who) => format!("{} killed", part(who)),
            Self::Frozen(who) => format!("{} frozen beyond their leases", part(who)),
            Self::DiskFull(who) => format!("{} without room on the disk", part(who)),
            Self::Storm(on) => format!("storms on the line {}", line(on)),
            Self::Cut(on) => format!("cuts of the line {}", line(on)),
            Self::Restart => "all processes killed at once".to_owned(),
            Self::PowerCut => "losses of power".to_owned(),
        }
    }

    /// Whether it takes from somebody what nobody else knows: a write that stands, and its message was not sent.
    const fn strikes_the_api(self) -> bool {
        match self {
            Self::Killed(Part::Api)
            | Self::Frozen(Part::Api)
            | Self::DiskFull(Part::Api)
            | Self::Restart
            | Self::PowerCut
            // The API's own message may be what is lost.
            | Self::Storm(Line::Backend)
            | Self::Cut(Line::Backend) => true,
            Self::Killed(Part::Worker | Part::Sweeper)
            | Self::Frozen(Part::Worker | Part::Sweeper)
            | Self::DiskFull(Part::Worker | Part::Sweeper)
            | Self::Storm(Line::Outside | Line::Front)
            | Self::Cut(Line::Outside | Line::Front) => false,
        }
    }

    /// What can go wrong, each with how many times as often as the rarest.
    fn all(home: &Home, can_fill_disks: bool) -> Vec<(Self, u32)> {
        let mut all = vec![
            (Self::Killed(Part::Worker), 60),
            (Self::Killed(Part::Api), 12),
            (Self::Killed(Part::Sweeper), 4),
            (Self::Frozen(Part::Worker), 28),
            (Self::Frozen(Part::Api), 5),
            (Self::Frozen(Part::Sweeper), 2),
            (Self::Storm(Line::Outside), 12),
            (Self::Storm(Line::Front), 12),
            (Self::Cut(Line::Outside), 6),
            (Self::Cut(Line::Front), 5),
            (Self::Restart, 3),
        ];
        match home {
            Home::Folder(_) => {
                all.push((Self::PowerCut, 2));
                if can_fill_disks {
                    all.extend([(Self::DiskFull(Part::Worker), 12), (Self::DiskFull(Part::Api), 6)]);
                }
            }
            #[cfg(feature = "aws")]
            Home::Aws(_) => all.extend([(Self::Storm(Line::Backend), 30), (Self::Cut(Line::Backend), 12)]),
        }
        all
    }
}

/// The lines, each with its proxies.
pub struct Lines<'a> {
    /// Between workers and the outside.
    pub outside: &'a Proxy,
    /// Between clients and the API.
    pub front: &'a Proxy,
    /// Between processes and the backend.
    pub backend: &'a [Proxy],
}

impl Lines<'_> {
    fn weather(&self, line: Line, weather: Weather) {
        match line {
            Line::Outside => self.outside.weather(weather),
            Line::Front => self.front.weather(weather),
            Line::Backend => self.backend.iter().for_each(|proxy| proxy.weather(weather)),
        }
    }

    /// All of them.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        [self.outside, self.front].into_iter().chain(self.backend)
    }
}

/// Who makes it go wrong.
pub struct Director<'a> {
    lines: Lines<'a>,
    rng: fastrand::Rng,
    /// Storms and cuts, and when each is over.
    weather: BTreeMap<Line, Instant>,
    can_fill_disks: bool,
    /// What has gone wrong so far.
    pub counts: BTreeMap<Fault, u64>,
}

impl<'a> Director<'a> {
    /// One who follows this seed. The weather is as usual from now on.
    pub fn new(lines: Lines<'a>, seed: u64) -> Self {
        let mut asks = Command::new("prlimit");
        let can_fill_disks = asks.arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
        for proxy in lines.proxies() {
            proxy.weather(Weather::Odds(ODDS));
        }
        let rng = fastrand::Rng::with_seed(seed);
        Self { lines, rng, weather: BTreeMap::new(), can_fill_disks, counts: BTreeMap::new() }
    }

    /// Whether this machine has what takes the room from a process.
    pub fn can_fill_disks(&self) -> bool {
        self.can_fill_disks
    }

    /// The lines.
    pub fn lines(&self) -> &Lines<'a> {
        &self.lines
    }

    /// Faults so far that can leave a run to the watchdog alone.
    pub fn strikes_of_the_api(&self) -> u64 {
        self.counts.iter().filter(|(fault, _)| fault.strikes_the_api()).map(|(_, count)| count).sum()
    }

    /// One more thing goes wrong.
    ///
    /// # Errors
    /// Those of the system, and a process that had ended by itself.
    pub async fn strike(&mut self, cast: &mut Cast<'_>) -> io::Result<()> {
        let all = Fault::all(cast.home(), self.can_fill_disks);
        let weights: u32 = all.iter().map(|(_, weight)| weight).sum();
        let mut left = self.rng.u32(..weights);
        let drawn = all.iter().find(|(_, weight)| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found
        });
        let Some((fault, _)) = drawn else { return Ok(()) };
        *self.counts.entry(*fault).or_default() += 1;
        let beyond = FROZEN_MAX.saturating_sub(LEASE);
        let time = LEASE + beyond.mul_f64(self.rng.f64());
        match *fault {
            Fault::Killed(part) => cast.kill(part, &mut self.rng).await?,
            Fault::Frozen(part) => cast.freeze(part, time, &mut self.rng)?,
            Fault::DiskFull(part) => {
                // From nothing to some pages more than the log has: some writes still fit, some in part.
                let bytes = self.rng.u64(..=512) * 1_000;
                cast.fill_disk(part, bytes, time, &mut self.rng)?;
            }
            Fault::Storm(line) => self.begin(line, Weather::Odds(STORM), time),
            Fault::Cut(line) => self.begin(line, Weather::Cut, time / 2),
            Fault::Restart => cast.restart().await?,
            Fault::PowerCut => cast.cut_power().await?,
        }
        Ok(())
    }

    fn begin(&mut self, line: Line, weather: Weather, time: Duration) {
        self.lines.weather(line, weather);
        self.weather.insert(line, Instant::now() + time);
    }

    /// Ends what has lasted for long enough.
    ///
    /// # Errors
    /// Those of the system.
    pub fn mend(&mut self, cast: &mut Cast<'_>) -> io::Result<()> {
        let now = Instant::now();
        let (over, on) = core::mem::take(&mut self.weather).into_iter().partition(|(_, until)| *until <= now);
        let over: BTreeMap<Line, Instant> = over;
        self.weather = on;
        for line in over.into_keys() {
            self.lines.weather(line, Weather::Odds(ODDS));
        }
        cast.mend(false)
    }

    /// Ends all of it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn calm(&mut self, cast: &mut Cast<'_>) -> io::Result<()> {
        for proxy in self.lines.proxies() {
            proxy.weather(Weather::Odds(0.0));
        }
        self.weather.clear();
        cast.mend(true)
    }

    /// A pause before the next fault, of this length on the average.
    pub fn pause(&mut self, average: Duration) -> Duration {
        average.mul_f64(self.rng.f64() * 2.0)
    }
}
