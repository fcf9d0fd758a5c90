//! Large futures, made where they stay.

use std::pin::Pin;

/// Boxes what a function makes.
///
/// `Box::pin` makes a future first and its place then, and copies it there: all of it, the room for what it will remember
/// included, which for a call is some kilobytes. Here the place is there first, so that the compiler can write what the
/// future begins with to it, and nothing else; where it does not, this is `Box::pin`.
pub fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_made_in_its_place_is_what_was_asked_for() {
        let word = "kept".to_owned();
        let kept = boxed(|| async move {
            tokio::task::yield_now().await;
            word + " over a pause"
        });
        assert_eq!(kept.await, "kept over a pause");
    }
}
