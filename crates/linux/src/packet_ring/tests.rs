//! The ring over plain memory, with a simulated kernel on the other side. No interface is needed.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use softtimers_core::Random;

use super::*;

/// Memory of 16-byte words, which keep the alignment.
type Words = Vec<u128>;

/// The side that fills slots (`tpacket_rcv`).
#[derive(Clone, Copy)]
struct Kernel {
    start: NonNull<u8>,
    slot: usize,
    slots: usize,
    head: usize,
    drops: u64,
}

// SAFETY: the memory outlives the threads of each test, and the protocol keeps the sides apart.
unsafe impl Send for Kernel {}

/// The offset of frames, as with the kernel's reserve.
const MAC: usize = FRAME - 14;

fn ring(slot: usize, slots: usize) -> (RxRing<Words>, Kernel) {
    let mut memory: Words = vec![0; slot * slots / 16];
    let start = NonNull::new(memory.as_mut_ptr()).unwrap().cast::<u8>();
    let kernel = Kernel { start, slot, slots, head: 0, drops: 0 };
    // SAFETY: the vector is as long as all slots, aligned, and its elements stay where they are when it is moved.
    (unsafe { RxRing::over(memory, start, slot, slots) }, kernel)
}

fn header(length: usize, snap: usize) -> libc::tpacket2_hdr {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut header: libc::tpacket2_hdr = unsafe { std::mem::zeroed() };
    (header.tp_status, header.tp_len, header.tp_snaplen) = (libc::TP_STATUS_USER, length as u32, snap as u32);
    (header.tp_mac, header.tp_sec, header.tp_nsec) = (MAC as u16, 7, 9);
    header
}

impl Kernel {
    /// Fills the next slot; `false` if it is not ours.
    fn put(&mut self, header: libc::tpacket2_hdr, frame: &[u8]) -> bool {
        // SAFETY: the slot lies inside the memory.
        let slot = unsafe { self.start.add(self.head * self.slot) };
        // SAFETY: the first word of a slot is its status, used atomically by both sides.
        let status = unsafe { AtomicU32::from_ptr(slot.cast::<u32>().as_ptr()) };
        if status.load(Acquire) != libc::TP_STATUS_KERNEL {
            self.drops += 1;
            return false;
        }
        let done = header.tp_status;
        let from = (&raw const header).cast::<u32>().wrapping_add(1);
        // SAFETY: the slot has room for the header.
        let to = unsafe { slot.cast::<u32>().add(1) };
        // SAFETY: the slot is ours, and has room for the header; its status is left alone.
        unsafe { to.as_ptr().copy_from_nonoverlapping(from, size_of_val(&header) / 4 - 1) };
        let fits = frame.len().min(self.slot - MAC);
        // SAFETY: as many bytes lie inside the slot, and it is ours.
        let place = unsafe { slot.add(MAC) };
        // SAFETY: as above.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(frame).cast(), fits) };
        status.store(done, Release);
        self.head = (self.head + 1) % self.slots;
        true
    }
}

#[derive(Clone, Debug)]
enum RingOp {
    Fill(usize),
    Take(usize),
}

fn steps() -> impl Strategy<Value = Vec<RingOp>> {
    vec(
        prop_oneof![(0usize..200).prop_map(RingOp::Fill), (1usize..6).prop_map(RingOp::Take)],
        1..if cfg!(miri) { 20 } else { 300 },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compared with a list of as many frames as the ring has slots: each frame comes out once, in order, as
    /// it went in, and exactly those without room are dropped.
    #[test]
    fn a_ring_is_a_bounded_list(slots in 1usize..9, steps in steps()) {
        let (mut ring, mut kernel) = ring(256, slots);
        let (mut model, mut number, mut dropped) = (VecDeque::new(), 0u8, 0);
        for step in steps {
            match step {
                RingOp::Fill(length) => {
                    number = number.wrapping_add(1);
                    let frame = vec![number; length];
                    let snap = length.min(256 - MAC);
                    let taken = kernel.put(header(length, snap), &frame);
                    prop_assert_eq!(taken, model.len() < slots);
                    if taken { model.push_back(frame) } else { dropped += 1 }
                }
                RingOp::Take(count) => for _ in 0..count {
                    prop_assert_eq!(ring.is_ready(), !model.is_empty());
                    let (slot, wanted) = (ring.take(), model.pop_front());
                    prop_assert_eq!(slot.is_some(), wanted.is_some());
                    let (Some(mut slot), Some(wanted)) = (slot, wanted) else { break };
                    prop_assert_eq!(slot.frame_length(), wanted.len());
                    let bytes = slot.bytes().unwrap();
                    let snap = wanted.len().min(256 - MAC);
                    prop_assert_eq!(&bytes[TAG..], &wanted[..snap]);
                    bytes.fill(0xee);
                },
            }
        }
        prop_assert_eq!(kernel.drops, dropped);
    }

    /// Any header is handled without touching a byte outside of the slot or in its status.
    #[test]
    fn no_header_leads_out_of_its_slot(words in vec(any::<u32>(), 8), status in any::<u32>()) {
        let (mut ring, kernel) = ring(256, 3);
        // SAFETY: the middle slot lies inside the memory and has room for the header.
        let slot = unsafe { kernel.start.add(256) };
        for (index, &word) in words.iter().enumerate() {
            // SAFETY: as above.
            let place = unsafe { slot.cast::<u32>().add(index) };
            // SAFETY: as above.
            unsafe { place.write(word) };
        }
        // SAFETY: as above.
        unsafe { slot.cast::<u32>().write(status | libc::TP_STATUS_USER) };
        ring.next = 1;
        let begin = slot.as_ptr() as usize;
        let mut slot = ring.take().unwrap();
        let _ = (slot.is_outgoing(), slot.has_copy(), slot.is_verified(), slot.tag(), slot.received());
        let described = slot.offloads().is_some();
        let bytes = slot.bytes();
        prop_assert_eq!(bytes.is_some(), described);
        if let Some(bytes) = bytes {
            let at = bytes.as_ptr() as usize;
            prop_assert!(at >= begin + HEADERS && at + bytes.len() <= begin + 256);
            bytes.fill(0);
        }
    }
}

/// Lengths and places at the edges.
#[test]
fn bounds_are_exact() {
    for (mac, snap, inside) in [
        (FRAME, 256 - FRAME, true),
        (FRAME, 256 - FRAME + 1, false),
        (FRAME, usize::MAX >> 32, false),
        (HEADERS + OFFLOAD_HEADER, 1, true),
        (HEADERS + OFFLOAD_HEADER - 1, 1, false),
        (0, 32, false),
        (256, 0, true),
        (257, 0, false),
        (u16::MAX.into(), 14, false),
    ] {
        let (mut ring, mut kernel) = ring(256, 1);
        let mut header = header(14, snap);
        header.tp_mac = mac as u16;
        assert!(kernel.put(header, &[1; 14]));
        assert_eq!(ring.take().unwrap().bytes().is_some(), inside, "{snap} bytes at {mac}");
        assert!(!ring.is_ready(), "the slot went back");
    }
}

#[test]
fn what_the_kernel_knows_is_told() {
    let (mut ring, mut kernel) = ring(256, 2);
    let mut header = header(60, 60);
    header.tp_status |= libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_CSUM_VALID;
    (header.tp_vlan_tci, header.tp_vlan_tpid) = (0x6005, 0x88a8);
    kernel.put(header, &[3; 60]);
    header.tp_status |= libc::TP_STATUS_VLAN_TPID_VALID | libc::TP_STATUS_COPY;
    kernel.put(header, &[3; 60]);
    let slot = ring.take().unwrap();
    assert_eq!((slot.tag(), slot.is_verified(), slot.has_copy()), (Some([0x8100, 0x6005]), true, false));
    assert_eq!(slot.received(), Duration::new(7, 9));
    drop(slot);
    let slot = ring.take().unwrap();
    assert_eq!((slot.tag(), slot.has_copy(), slot.is_outgoing()), (Some([0x88a8, 0x6005]), true, false));
    drop(slot);
    assert!(ring.take().is_none());
}

/// Both sides at once: nothing is torn, nothing is lost uncounted.
#[test]
fn two_sides_at_once() {
    let (mut ring, mut kernel) = ring(256, 8);
    let offered: u64 = if cfg!(miri) { 200 } else { 200_000 };
    let filler = thread::spawn(move || {
        let mut random = Random::stream(5, 0);
        for number in 1..=offered {
            let length = 14 + random.below(100) as usize;
            kernel.put(header(length, length), &vec![number as u8; length]);
            if number % 16 == 0 {
                thread::yield_now();
            }
        }
        kernel.drops
    });
    let mut taken = 0;
    let mut drain = || {
        while let Some(mut slot) = ring.take() {
            let length = slot.frame_length();
            let bytes = &slot.bytes().unwrap()[TAG..];
            assert!(bytes.len() == length && bytes.iter().all(|byte| *byte == bytes[0]));
            taken += 1;
        }
    };
    while !filler.is_finished() {
        drain();
        thread::yield_now();
    }
    let drops = filler.join().unwrap();
    drain();
    assert_eq!(taken + drops, offered);
}
