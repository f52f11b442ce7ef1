//! Which workflows this program has.

use stepwell::Registry;
use stepwell_samples::Outside;
use stepwell_samples::client::SetupError;

/// The workflows of this program.
pub(crate) enum Workflows {
    /// The samples, whose outside is named by each command.
    Samples,
    /// Those of the project that this program was built for.
    Own(Registry),
}

impl Workflows {
    pub(crate) fn registry(&self, outside: &Outside) -> Result<Registry, SetupError> {
        match self {
            Self::Samples => stepwell_samples::registry(outside),
            Self::Own(registry) => Ok(registry.clone()),
        }
    }

    pub(crate) const fn are_samples(&self) -> bool {
        match self {
            Self::Samples => true,
            Self::Own(_) => false,
        }
    }
}
