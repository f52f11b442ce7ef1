//! What pages are made of: text from outside, times, statuses, values, differences, forms.

pub(crate) mod badge;
pub(crate) mod diff;
pub(crate) mod form;
pub(crate) mod json;
pub(crate) mod text;
pub(crate) mod time;
