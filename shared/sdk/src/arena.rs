//! Effect keys with the lifetime of the step's context, so that a call's future can borrow its key.

use std::sync::OnceLock;

use stepwell_core::EffectKey;

/// An append-only list whose elements never move.
#[derive(Default)]
pub(crate) struct Keys {
    head: OnceLock<Box<Node>>,
}

struct Node {
    key: EffectKey,
    next: OnceLock<Box<Node>>,
}

impl Keys {
    /// Keeps a key; the same key twice is kept once.
    pub(crate) fn keep(&self, key: &EffectKey) -> &EffectKey {
        let mut slot = &self.head;
        loop {
            let node = slot.get_or_init(|| Box::new(Node { key: key.clone(), next: OnceLock::new() }));
            if node.key == *key {
                return &node.key;
            }
            slot = &node.next;
        }
    }
}
