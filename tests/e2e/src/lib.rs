//! # The deployed whole
