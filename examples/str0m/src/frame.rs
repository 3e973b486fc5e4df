//! The video: frames of 20 to 60 kB, thirty times a second, that contain the time at which they were made.

use std::time::Duration;

use softtimers::Timestamp;

/// The time between two frames.
pub(crate) const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// Returns the frame with this number, made at `now`.
pub(crate) fn made(number: u32, now: Timestamp) -> Vec<u8> {
    let mut frame = Vec::with_capacity(length(number));
    frame.extend(number.to_be_bytes());
    frame.extend(now.as_nanos().to_be_bytes());
    frame.resize(length(number), number as u8);
    frame
}

/// Reads the number and the time of a frame, if it arrived unchanged.
pub(crate) fn read(frame: &[u8]) -> Option<(u32, Timestamp)> {
    let (number, rest) = frame.split_first_chunk()?;
    let (made, content) = rest.split_first_chunk()?;
    let number = u32::from_be_bytes(*number);
    let whole = frame.len() == length(number) && content.iter().all(|byte| *byte == number as u8);
    whole.then(|| (number, Timestamp::from_nanos(u64::from_be_bytes(*made))))
}

/// Returns a frame's length: every tenth is a big one, the others vary.
fn length(number: u32) -> usize {
    if number.is_multiple_of(10) { 60_000 } else { 20_000 + (number as usize * 7_919) % 30_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_made() {
        let now = Timestamp::from_micros(77);
        for number in 0..60 {
            let frame = made(number, now);
            assert!((20_000..=60_000).contains(&frame.len()));
            assert_eq!(read(&frame), Some((number, now)));
            assert_eq!(read(&frame[..frame.len() - 1]), None);
        }
        assert_eq!(read(&[]), None);
    }
}
