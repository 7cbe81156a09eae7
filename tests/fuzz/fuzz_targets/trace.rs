//! Any bytes can be read as a trace: never a panic, always an end, and whatever is a frame can be
//! written and read again as the same one, in the room that is promised to be enough.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;

use tenure_core::trace::{Frame, MOST_FRAME, Reader, Replay, VERSION};

fn written_again(frame: &Frame<'_>) {
    let texts = match frame {
        Frame::Opened { name, holder, .. } => name.len() + holder.len(),
        Frame::Handled { .. } | Frame::Asked { .. } => 0,
    };
    let mut buffer = vec![0; 1 + MOST_FRAME + texts];
    buffer[0] = VERSION;
    let end = 1 + frame.write(&mut buffer[1..]).expect("there is room").len();
    let mut reader = Reader::new(&buffer[..end]).expect("a trace");
    assert_eq!(reader.next(), Some(Ok(*frame)));
    assert_eq!(reader.next(), None);
    // Cut off anywhere, it is no other frame.
    assert!(Reader::new(&buffer[..end - 1]).expect("a trace").next().is_none_or(|f| f.is_err()));
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes) else {
        assert_ne!(bytes.first(), Some(&VERSION));
        return;
    };
    let mut leases: BTreeMap<u32, Replay> = BTreeMap::new();
    let mut left = reader.left();
    let mut failed = false;
    while let Some(frame) = reader.next() {
        assert!(!failed, "went on after an error");
        assert!(reader.left() < left, "read a frame from nothing");
        left = reader.left();
        let Ok(frame) = frame else {
            failed = true;
            continue;
        };
        written_again(&frame);
        if let Frame::Opened { lease, settings, .. } = frame
            && let Ok(replay) = Replay::new(settings)
        {
            leases.insert(lease, replay);
        }
        if let Some(replay) = leases.get_mut(&frame.lease()) {
            let mut twin = replay.clone();
            let replayed = replay.step(&frame);
            assert_eq!(replayed, twin.step(&frame), "the same inputs, another output");
        }
    }
    assert_eq!(reader.left(), 0);
});
