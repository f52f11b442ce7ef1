//! The processes of the story: workers, a sweeper, the API. Each is killed, frozen or left without room, and replaced.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdout, Command};
use std::time::{Duration, Instant};

use super::home::Home;
use super::proxy::Proxy;
use crate::process::{Process, Thaw};

/// Workers at a time.
const WORKERS: usize = 3;

/// Until the API listens. Opening the backend waits for whoever holds it.
const START_MAX: Duration = Duration::from_secs(30);

/// For how long all stand still at most while their folder is copied.
const COPIED_WITHIN: Duration = Duration::from_secs(20);

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Runs steps.
    Worker,
    /// Sweeps.
    Sweeper,
    /// Serves the API.
    Api,
}

struct Member {
    part: Part,
    process: Process,
    /// Lets it go on when it was frozen for long enough.
    thaws: Option<Thaw>,
    /// Has room again then.
    full_until: Option<Instant>,
    /// Keeps its stdout open.
    _stdout: Option<BufReader<ChildStdout>>,
}

/// How a cast is started.
pub struct Setting {
    /// The program.
    pub program: &'static str,
    /// Where the runs are.
    pub home: Home,
    /// Where workers find the outside.
    pub outside: SocketAddr,
    /// What processes find in their environment, besides ours.
    pub environment: Vec<(String, String)>,
    /// Where what they say on stderr goes.
    pub log: PathBuf,
}

/// All processes. They end with this value.
pub struct Cast<'a> {
    setting: Setting,
    /// Where clients find the API.
    front: &'a Proxy,
    members: Vec<Member>,
    started: u32,
}

impl<'a> Cast<'a> {
    /// Starts all of them.
    ///
    /// # Errors
    /// Where one cannot be started.
    pub async fn start(setting: Setting, front: &'a Proxy) -> io::Result<Self> {
        let mut cast = Self { setting, front, members: Vec::new(), started: 0 };
        cast.start_all().await?;
        Ok(cast)
    }

    /// Where the runs are.
    pub fn home(&self) -> &Home {
        &self.setting.home
    }

    /// What they have said on stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.setting.log).unwrap_or_default()
    }

    async fn start_all(&mut self) -> io::Result<()> {
        for part in [Part::Worker; WORKERS].into_iter().chain([Part::Sweeper, Part::Api]) {
            self.start_one(part).await?;
        }
        Ok(())
    }

    async fn start_one(&mut self, part: Part) -> io::Result<()> {
        self.started += 1;
        let (home, me) = (self.setting.home.word(), format!("p-{}", self.started));
        let behind = self.front.address().port().to_string();
        let arguments = match part {
            Part::Worker => vec!["errands".into(), home, self.setting.outside.to_string(), me],
            Part::Sweeper => vec!["sweep".into(), home, me],
            Part::Api => vec!["api".into(), home, behind],
        };
        let Setting { program, environment, log, .. } = &self.setting;
        let (process, stdout) = Process::start_hardened(program, &arguments, environment, log)?;
        let mut stdout = BufReader::new(stdout);
        if part == Part::Api {
            let listening = tokio::task::spawn_blocking(move || {
                let mut line = String::new();
                stdout.read_line(&mut line).map(|_| (line, stdout))
            });
            let listening = tokio::time::timeout(START_MAX, listening).await.map_err(io::Error::other)?;
            let (line, open) = listening.map_err(io::Error::other)??;
            let not = |_| io::Error::other(format!("the API does not say where it listens; the log:\n{}", self.said()));
            self.front.pass_on_to(line.trim().parse().map_err(not)?);
            stdout = open;
        }
        let member = Member { part, process, thaws: None, full_until: None, _stdout: Some(stdout) };
        self.members.push(member);
        Ok(())
    }

    fn some(&self, part: Part, rng: &mut fastrand::Rng) -> Option<usize> {
        let those: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].part == part).collect();
        rng.choice(those)
    }

    /// Kills one of them with SIGKILL, and starts another.
    ///
    /// # Errors
    /// When it had ended by itself; none ever does.
    pub async fn kill(&mut self, part: Part, rng: &mut fastrand::Rng) -> io::Result<()> {
        if let Some(at) = self.some(part, rng) {
            let mut member = self.members.swap_remove(at);
            self.kill_it(&mut member)?;
            self.start_one(part).await?;
        }
        Ok(())
    }

    fn kill_it(&self, member: &mut Member) -> io::Result<()> {
        // Its number may be another's soon.
        member.thaws = None;
        let ended = || io::Error::other(format!("a {:?} ended by itself; the log:\n{}", member.part, self.said()));
        member.process.kill()?.ok_or_else(ended)
    }

    /// Stops one of them for so long. It does not notice.
    ///
    /// # Errors
    /// Those of the system.
    pub fn freeze(&mut self, part: Part, time: Duration, rng: &mut fastrand::Rng) -> io::Result<()> {
        if let Some(at) = self.some(part, rng) {
            let member = &mut self.members[at];
            // Never longer in one piece: calls count on that.
            if member.thaws.as_mut().is_none_or(Thaw::is_over) {
                member.thaws = Some(member.process.pause_for(time)?);
            }
        }
        Ok(())
    }

    /// Takes the room from one of them for so long: no file may grow over so many bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn fill_disk(&mut self, part: Part, bytes: u64, time: Duration, rng: &mut fastrand::Rng) -> io::Result<()> {
        if let Some(at) = self.some(part, rng) {
            let member = &mut self.members[at];
            member.process.limit_files(Some(bytes))?;
            member.full_until = Some(Instant::now() + time);
        }
        Ok(())
    }

    /// Makes room for who has had none for long enough, or for all.
    ///
    /// # Errors
    /// Those of the system.
    pub fn mend(&mut self, all: bool) -> io::Result<()> {
        let now = Instant::now();
        let is_over = |until: &mut Instant| all || *until <= now;
        for member in &mut self.members {
            if member.full_until.take_if(is_over).is_some() {
                member.process.limit_files(None)?;
            }
        }
        Ok(())
    }

    /// Kills all at once, and starts all again on what is there.
    ///
    /// # Errors
    /// As [`Cast::kill`].
    pub async fn restart(&mut self) -> io::Result<()> {
        self.end()?;
        self.start_all().await
    }

    /// Stops all where they are, copies the folder as it is on the disk at that moment, kills all, and goes on with the copy alone: as
    /// after a loss of power. What only memory knew is gone, with it the index of SQLite's log.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn cut_power(&mut self) -> io::Result<()> {
        let dir = match &self.setting.home {
            Home::Folder(dir) => dir.clone(),
            #[cfg(feature = "aws")]
            Home::Aws(_) => return self.restart().await,
        };
        for member in &mut self.members {
            member.thaws = Some(member.process.pause_for(COPIED_WITHIN)?);
        }
        let copying = Instant::now();
        let copy = dir.with_extension(self.started.to_string());
        // By another process: closing a file that SQLite has locked here would let go of its locks.
        let copied = Command::new("cp").arg("-R").args([&dir, &copy]).status()?;
        self.end()?;
        if !copied.success() || copying.elapsed() > COPIED_WITHIN {
            return Err(io::Error::other(format!("{} was not copied in time: {copied}", dir.display())));
        }
        std::fs::remove_file(copy.join("stepwell.db-shm"))?;
        std::fs::remove_dir_all(&dir)?;
        self.setting.home = Home::Folder(copy);
        self.start_all().await
    }

    /// Kills all.
    ///
    /// # Errors
    /// As [`Cast::kill`].
    pub fn end(&mut self) -> io::Result<()> {
        let mut members = core::mem::take(&mut self.members);
        members.iter_mut().try_for_each(|member| self.kill_it(member))
    }
}
