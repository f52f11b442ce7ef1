//! The figures of one benchmark: a table of its own, and a part of the report on all of them.

use std::io::{self, Write};

use stepwell_report::{Report, Value};

/// What a figure should reach on a quiet machine.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    None,
    AtLeast(f64),
    AtMost(f64),
}

/// One benchmark's figures.
pub(crate) struct Sheet<'r> {
    name: &'static str,
    own: Report,
    all: &'r mut Report,
}

impl<'r> Sheet<'r> {
    pub(crate) fn new(name: &'static str, all: &'r mut Report) -> Self {
        Self { name, own: Report::new(name), all }
    }

    /// Adds a figure.
    pub(crate) fn figure(&mut self, name: &str, value: impl Into<Value>, unit: &str, aim: Aim) {
        let value = value.into();
        let of_all = format!("{}: {name}", self.name);
        for figure in [self.own.figure(name, value.clone()), self.all.figure(&of_all, value)] {
            figure.unit(unit);
            match aim {
                Aim::None => figure,
                Aim::AtLeast(bound) => figure.at_least(bound),
                Aim::AtMost(bound) => figure.at_most(bound),
            };
        }
    }

    /// Counts a check on a result.
    pub(crate) fn check(&mut self, what: &str, ok: bool) {
        self.own.check(what, ok);
        self.all.check(&format!("{}: {what}", self.name), ok);
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.own.print_to(out)
    }
}
