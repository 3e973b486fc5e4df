//! The ring of blocks over plain memory, with a simulated kernel on the other side. No interface is needed.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Release};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Memory of 16-byte words, which keep the alignment.
type Words = Vec<u128>;

const BLOCK: usize = 1_024;
/// The offset of frames in their packets.
const MAC: usize = FRAME - 14;

/// The side that fills blocks (`prb_fill_curr_block` and what follows it).
struct Kernel {
    start: NonNull<u8>,
    blocks: usize,
    current: usize,
    /// The offset of the next packet in the open block, and its number of packets; `None` if the block is not
    /// the kernel's.
    open: Option<(usize, u32)>,
    last: usize,
    drops: u64,
}

fn ring(blocks: usize) -> (BlockRing<Words>, Kernel) {
    let mut memory: Words = vec![0; BLOCK * blocks / 16];
    let start = NonNull::new(memory.as_mut_ptr()).unwrap().cast::<u8>();
    let kernel = Kernel { start, blocks, current: 0, open: Some((BLOCK_HEADER, 0)), last: 0, drops: 0 };
    // SAFETY: the vector is as long as all blocks, aligned, and its elements stay where they are when it is moved.
    (unsafe { BlockRing::over(memory, start, BLOCK, blocks) }, kernel)
}

impl Kernel {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= BLOCK);
        // SAFETY: the place lies inside the current block, as just checked, and so inside the memory.
        let place = unsafe { self.start.add(self.current * BLOCK + at) };
        // SAFETY: as above; the block is the kernel's.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the record lies inside the current block.
        let record = unsafe { self.start.add(self.current * BLOCK + RECORD) };
        // SAFETY: its first word is the status, used atomically by both sides.
        unsafe { AtomicU32::from_ptr(record.cast::<u32>().as_ptr()) }
    }

    /// Opens the current block if it is the kernel's.
    fn opened(&mut self) -> bool {
        if self.open.is_none() && self.status().load(Acquire) == libc::TP_STATUS_KERNEL {
            self.open = Some((BLOCK_HEADER, 0));
        }
        self.open.is_some()
    }

    fn put(&mut self, frame: &[u8]) -> bool {
        let length = (MAC + frame.len()).next_multiple_of(8);
        if self.open.is_some_and(|(at, _)| at + length > BLOCK) {
            self.retire();
        }
        if !self.opened() {
            self.drops += 1;
            return false;
        }
        let (at, packets) = self.open.unwrap();
        let mut head = [0; HEADERS];
        let words = [length as u32, 7, 9, frame.len() as u32, frame.len() as u32, libc::TP_STATUS_USER];
        for (place, word) in words.into_iter().enumerate() {
            head[place * 4..place * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        head[24..26].copy_from_slice(&(MAC as u16).to_ne_bytes());
        head[KIND] = libc::PACKET_OUTGOING;
        self.write(at, &head);
        self.write(at + MAC, frame);
        (self.open, self.last) = (Some((at + length, packets + 1)), at);
        true
    }

    /// Hands the open block over, if it is not empty.
    fn retire(&mut self) {
        let Some((_, packets @ 1..)) = self.open else { return };
        self.write(self.last, &[0; 4]);
        self.write(RECORD + 4, &packets.to_ne_bytes());
        self.write(RECORD + 8, &(BLOCK_HEADER as u32).to_ne_bytes());
        self.status().store(libc::TP_STATUS_USER, Release);
        (self.open, self.current) = (None, (self.current + 1) % self.blocks);
        self.opened();
    }
}

#[derive(Clone, Debug)]
enum RingOp {
    Fill(usize),
    Retire,
    Take(usize),
}

fn steps() -> impl Strategy<Value = Vec<RingOp>> {
    let step = prop_oneof![
        4 => (0usize..880).prop_map(RingOp::Fill),
        1 => Just(RingOp::Retire),
        2 => (1usize..8).prop_map(RingOp::Take),
    ];
    vec(step, 1..if cfg!(miri) { 20 } else { 300 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each accepted frame comes out once, in order, when its block is handed over, and no other.
    #[test]
    fn a_ring_is_a_list_that_is_handed_over_in_pieces(blocks in 2usize..6, steps in steps()) {
        let (mut ring, mut kernel) = ring(blocks);
        let (mut model, mut number, mut dropped) = (VecDeque::new(), 0u8, 0);
        let check = |taken: Option<Slot<'_>>, model: &mut VecDeque<Vec<u8>>| {
            let Some(mut packed) = taken else { return Ok(false) };
            let wanted: Vec<u8> = model.pop_front().expect("no more than were put in");
            prop_assert_eq!((packed.frame_length(), packed.kind()), (wanted.len(), libc::PACKET_OUTGOING));
            prop_assert_eq!(packed.received(), Duration::new(7, 9));
            let bytes = packed.bytes().expect("it lies inside");
            prop_assert_eq!(&bytes[TAG..], &wanted[..]);
            bytes.fill(0xee);
            Ok(true)
        };
        for step in steps {
            match step {
                RingOp::Fill(length) => {
                    number = number.wrapping_add(1);
                    let frame = vec![number; length];
                    if kernel.put(&frame) { model.push_back(frame) } else { dropped += 1 }
                }
                RingOp::Retire => kernel.retire(),
                RingOp::Take(count) => for _ in 0..count {
                    let ready = ring.is_ready();
                    prop_assert_eq!(check(ring.take(), &mut model)?, ready);
                },
            }
        }
        kernel.retire();
        while check(ring.take(), &mut model)? {
            kernel.retire();
        }
        prop_assert!(model.is_empty());
        prop_assert_eq!(kernel.drops, dropped);
    }

    /// Any headers are handled without touching a byte outside of the block; it is returned in any case.
    #[test]
    fn no_header_leads_out_of_its_block(words in vec(prop_oneof![any::<u32>(), 0u32..1_200], 40), packets in 0u32..9) {
        let (mut ring, mut kernel) = ring(3);
        kernel.current = 1;
        ring.next = 1;
        for (at, word) in words.iter().enumerate() {
            kernel.write(at * 4, &word.to_ne_bytes());
        }
        kernel.write(RECORD + 4, &packets.to_ne_bytes());
        kernel.status().store(libc::TP_STATUS_USER, Release);
        // SAFETY: the middle block lies inside the memory.
        let begin = unsafe { kernel.start.add(BLOCK) }.as_ptr() as usize;
        let mut taken = 0;
        while let Some(mut packed) = ring.take() {
            taken += 1;
            let _ = (packed.kind(), packed.tag(), packed.is_verified(), packed.received(), packed.frame_length());
            if let Some(bytes) = packed.bytes() {
                let at = bytes.as_ptr() as usize;
                prop_assert!(at >= begin && at + bytes.len() <= begin + BLOCK);
            }
        }
        prop_assert!(taken <= packets);
        prop_assert_eq!((kernel.status().load(Acquire), ring.next), (libc::TP_STATUS_KERNEL, 2));
    }
}
