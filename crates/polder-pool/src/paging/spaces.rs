//! Spaces for which one thread loads pages of several.

#![cfg(not(loom))]

use std::cell::OnceCell;
use std::sync::Arc;

use polder_format::SpaceId;

use crate::shared::{Shared, SpaceCore};
use crate::translation::Translation;

/// Spaces that pages are loaded for, each at an address of its own until all of them go: faults that
/// are open refer to them.
pub(crate) struct Spaces<T: Translation>(OnceCell<Box<Known<T>>>);

struct Known<T: Translation> {
    space: Arc<SpaceCore<T>>,
    rest: Spaces<T>,
}

impl<T: Translation> Spaces<T> {
    pub(crate) fn none() -> Spaces<T> {
        Spaces(OnceCell::new())
    }

    /// That of this id; none if it is not open.
    pub(crate) fn get(&self, shared: &Shared<T>, id: SpaceId) -> Option<&SpaceCore<T>> {
        let mut at = self;
        while let Some(known) = at.0.get() {
            if known.space.id == id {
                return Some(&known.space);
            }
            at = &known.rest;
        }
        let space = shared.space(id)?;
        Some(&at.0.get_or_init(|| Box::new(Known { space, rest: Spaces::none() })).space)
    }
}
