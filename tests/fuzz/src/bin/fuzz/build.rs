//! The targets, built with coverage.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use stepwell_fuzz::Target;
use stepwell_report::reports_dir;

use crate::Outcome;

/// What makes the compiler count where a program has been, and what it compares. All of it is stable.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Where everything is.
pub(crate) struct Built {
    /// The programs.
    programs: PathBuf,
    /// What runs leave.
    pub(crate) left: PathBuf,
    /// This crate.
    pub(crate) source: PathBuf,
}

impl Built {
    pub(crate) fn new(targets: &[Target]) -> Outcome<Self> {
        let left = reports_dir()?.with_file_name("fuzz");
        let (cargo, host) = (env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), host()?);
        let mut build = Command::new(cargo);
        build.args(["build", "--locked", "-p", env!("CARGO_PKG_NAME"), "--features", "libfuzzer"]);
        // With a target named, the flags are for the programs alone, and not for build scripts.
        build.args(["--target", &host, "--target-dir"]).arg(&left);
        for target in targets {
            build.args(["--bin", &program(target)]);
        }
        let with = [
            ("RUSTFLAGS", COVERAGE),
            ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
            ("CARGO_PROFILE_DEV_CODEGEN_UNITS", "4"),
            ("CARGO_INCREMENTAL", "0"),
        ];
        let status = build.envs(with).env_remove("CARGO_ENCODED_RUSTFLAGS").status()?;
        if !status.success() {
            return Err(
                format!("the targets cannot be built ({status}); libFuzzer needs a C++ compiler, such as g++").into()
            );
        }
        let programs = left.join(host).join("debug");
        Ok(Self { programs, left, source: Path::new(env!("CARGO_MANIFEST_DIR")).to_owned() })
    }

    /// A target's program.
    pub(crate) fn program(&self, target: &Target) -> Command {
        Command::new(self.programs.join(program(target)))
    }

    /// A folder of what is kept in the tree for a target: `corpus` or `found`.
    pub(crate) fn kept(&self, kind: &str, target: &Target) -> PathBuf {
        self.source.join(kind).join(target.name)
    }
}

fn program(target: &Target) -> String {
    format!("fuzz-{}", target.name)
}

/// The machine that this compiler builds for.
fn host() -> Outcome<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = String::from_utf8(Command::new(rustc).arg("-vV").output()?.stdout)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it builds for".into())
}
