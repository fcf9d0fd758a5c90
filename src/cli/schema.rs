//! `glossator schema`.

use super::{Failure, screen::Screen};

pub(super) fn schema(screen: &mut Screen) -> Result<(), Failure> {
    screen.json(&crate::config::schema());
    Ok(())
}
