use std::net::Ipv4Addr;
use std::time::Duration;

use softtimers_core::Rate;

use super::*;

fn source(number: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + (number >> 8)), 1_024 + (number & 0xff) as u16))
}

fn micros(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn seconds(seconds: u64) -> Timestamp {
    micros(seconds * 1_000_000)
}

/// Does what the relay does with a packet.
fn arrive(clients: &mut Clients<u32>, now: Timestamp, number: u32, bytes: usize) -> ClientId {
    if let Some(known) = clients.heard(now, source(number), bytes) {
        return known;
    }
    clients.make_room(now);
    clients.insert(now, source(number), bytes, number)
}

fn table(most: u32) -> Clients<u32> {
    Clients::new(ClientLimits { most, ..ClientLimits::default() })
}

/// Numbers beyond those of a flood.
const HONEST: u32 = 1 << 23;
const FLOOD: u32 = if cfg!(miri) { 2_000 } else { 1_000_000 };

/// A million sources within five seconds, each answered, and one client in two-way use: it keeps its place
/// and its id, each of the others gets one, and memory does not grow.
#[test]
fn a_client_in_two_way_use_survives_a_flood_of_a_million_sources() {
    let mut clients = table(100);
    let honest = arrive(&mut clients, micros(0), HONEST, 40);
    clients.answer(micros(0), honest, 40).unwrap();
    for number in 0..FLOOD {
        let now = micros(u64::from(number) * 5);
        // A packet of 40 bytes every 5 ms, against packets of 1,400 bytes.
        if number % 1_000 == 0 {
            assert_eq!(clients.heard(now, source(HONEST), 40), Some(honest), "source {number}");
            clients.answer(now, honest, 100).unwrap();
        }
        let spoofed = arrive(&mut clients, now, number, 1_400);
        let _ = clients.answer(now, spoofed, 1_400);
        assert!(clients.by_source.len() <= 100 && clients.slots.len() <= 100);
    }
    let stats = clients.stats;
    assert_eq!((stats.opened, stats.evicted), (u64::from(FLOOD) + 1, u64::from(FLOOD) + 1 - 100));
    assert_eq!(clients.free.len() + clients.by_source.len(), clients.slots.len());
    assert_eq!(clients.taken.len(), clients.by_source.len());
    assert!(clients.outlet(honest).is_some());
}

/// The table is full of sources that were answered, and more come all the time: a new client gets all of its
/// twelve answers.
#[test]
fn a_new_client_is_served_by_a_full_table() {
    let mut clients = table(512);
    let mut flood = 0..;
    let mut spoof = |clients: &mut Clients<u32>, now, sources| {
        for number in flood.by_ref().take(sources) {
            let spoofed = arrive(clients, now, number, 32);
            clients.answer(now, spoofed, 32).unwrap_or_else(|_| source(number));
        }
    };
    spoof(&mut clients, seconds(0), 600);
    for question in 0..12 {
        let now = micros(question * 50_000);
        let client = arrive(&mut clients, now, HONEST, 40);
        // 100 spoofed sources while the answer is under way.
        spoof(&mut clients, now, 100);
        assert_eq!(clients.answer(now, client, 100), Ok(source(HONEST)), "question {question}");
        spoof(&mut clients, now, 100);
    }
}

/// A client that sends twice from each address is outlasted by one that has sent three times.
#[test]
fn a_place_is_kept_by_turns_and_not_by_the_size_of_packets() {
    let mut clients = table(100);
    let honest = arrive(&mut clients, micros(0), HONEST, 1);
    for turn in 1..=3 {
        clients.answer(micros(turn), honest, 1).unwrap();
        assert_eq!(arrive(&mut clients, micros(turn), HONEST, 1), honest);
    }
    for number in 0..FLOOD / 100 {
        for now in [10 + u64::from(number), 11 + u64::from(number)].map(micros) {
            let spoofed = arrive(&mut clients, now, number, 1_400);
            let _ = clients.answer(now, spoofed, 1_400);
        }
    }
    assert!(clients.outlet(honest).is_some(), "{:?}", clients.stats);
}

/// However much it did before, after twenty silent seconds a client is evicted before active ones.
#[test]
fn what_a_client_did_long_ago_keeps_no_place() {
    let mut clients = table(64);
    let turns = if cfg!(miri) { 20 } else { 10_000 };
    for number in 0..64 {
        for _ in 0..turns {
            let busy = arrive(&mut clients, seconds(0), number, 1_000);
            let _ = clients.answer(seconds(0), busy, 1_000);
        }
    }
    let honest = arrive(&mut clients, seconds(20), HONEST, 10);
    clients.answer(seconds(20), honest, 10).unwrap();
    arrive(&mut clients, seconds(20), HONEST, 10);
    for number in 100..164 {
        arrive(&mut clients, seconds(21), number, 10);
    }
    assert!(clients.outlet(honest).is_some());
    assert!((0..64).all(|number| clients.heard(seconds(21), source(number), 1).is_none()));
}

/// With the same packets to two tables, the compared clients differ, and so do the evicted ones.
#[test]
fn who_is_evicted_cannot_be_foreseen() {
    let evicted = || {
        let mut clients = table(512);
        for number in 0..512 {
            arrive(&mut clients, micros(number.into()), number, 40);
        }
        (0..64).map(|_| clients.evict(seconds(1))).collect::<Vec<_>>()
    };
    assert_ne!(evicted(), evicted());
}

/// Most of a large table has expired, and then descriptors run out: as long as there is a client, one is
/// evicted for a new one.
#[test]
fn one_of_few_clients_that_are_left_gives_way() {
    let most = if cfg!(miri) { 2_000 } else { 50_000 };
    let mut clients = table(most);
    let all: Vec<_> = (0..most).map(|number| arrive(&mut clients, seconds(0), number, 40)).collect();
    let left: Vec<u32> = (0..most).step_by(most as usize / 5 - 1).collect();
    for (number, id) in (0..).zip(&all).filter(|(number, _)| !left.contains(number)) {
        assert_eq!(clients.expire(seconds(200), *id), Expiry::Forgotten(number));
    }
    // Those that came first are evicted first, because all have been idle equally long.
    let evicted: Vec<_> = (0..left.len()).map(|_| clients.evict(seconds(200)).unwrap()).collect();
    assert_eq!(evicted, left);
    assert_eq!((clients.evict(seconds(200)), clients.stats.clients), (None, 0));
    // And the table is intact: it fills again, and each of its clients is found.
    for number in 0..most {
        let id = arrive(&mut clients, seconds(300), number, 40);
        assert_eq!(clients.heard(seconds(300), source(number), 40), Some(id));
    }
    assert_eq!((clients.slots.len(), clients.taken.len()), (most as usize, most as usize));
}

/// Two packets with a forged address, then many, with 12,000 bytes of answer for each; and the relay is made
/// to forget the client again and again: the victim never gets more than three times the traffic sent in its
/// name.
#[test]
fn a_victim_gets_no_more_than_three_times_what_was_sent_in_its_name_for_life() {
    let mut clients = table(8);
    let (mut sent, mut got, mut others) = (0, 0, 0..);
    for round in 0..2_000u64 {
        let now = micros(round * 10_000);
        let victim = arrive(&mut clients, now, HONEST, 32);
        sent += 32;
        for bytes in [1_200, 64, 33, 32, 31, 10, 1, 0] {
            for _ in 0..10 {
                got += clients.answer(now, victim, bytes).map_or(0, |_| bytes);
                assert!(got <= 3 * sent, "{got} for {sent} in round {round}");
            }
        }
        match round % 7 {
            0 => {
                for number in others.by_ref().take(40) {
                    arrive(&mut clients, now, number, 1_400);
                }
            }
            3 => drop(clients.expire(now + Duration::from_secs(120), victim)),
            _ => {}
        }
    }
    let RelayStats { evicted, expired, withheld_budget, .. } = clients.stats;
    assert!(
        got > sent && evicted > 1_000 && expired > 200 && withheld_budget > 10_000,
        "{:?}",
        clients.stats
    );
}

#[test]
fn answers_to_a_prefix_have_a_rate_together() {
    let limits =
        ClientLimits { answers_per_prefix: Rate::per_second(10).unwrap(), ..ClientLimits::default() };
    let mut clients = Clients::new(limits);
    // 256 ports of each of four addresses of one /24, for ten seconds.
    let mut answers = 0;
    for tenth in 0..100 {
        for number in (0..1_024).step_by(16) {
            let now = micros(tenth * 100_000);
            let client = arrive(&mut clients, now, number, 40);
            answers += u64::from(clients.answer(now, client, 40).is_ok());
        }
    }
    assert!((100..=101).contains(&answers), "{answers}");
    assert_eq!(clients.stats.withheld_rate, 6_400 - answers);
    assert_eq!(clients.stats.withheld_bytes, 40 * (6_400 - answers));
}

#[test]
fn who_is_trusted_is_answered_with_all() {
    let limits = |trust: &[&str]| {
        let trust = trust.iter().map(|network| network.parse().unwrap()).collect();
        ClientLimits { answers_per_prefix: Rate::per_second(1).unwrap(), trust, ..ClientLimits::default() }
    };
    let answered = |limits: ClientLimits, from: &str| {
        let mut clients = Clients::new(limits);
        let client = clients.insert(micros(0), SocketAddr::new(from.parse().unwrap(), 9), 1, 0);
        (0..50).filter(|_| clients.answer(micros(0), client, 65_507).is_ok()).count()
    };
    for from in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(answered(limits(&[]), from), 50, "{from}");
        assert_eq!(answered(ClientLimits { trust_loopback: false, ..limits(&[]) }, from), 0, "{from}");
    }
    let trust = ["192.0.2.0/24", "2001:db8::/32"];
    for (from, all) in [
        ("192.0.2.255", true),
        ("::ffff:192.0.2.1", true),
        ("192.0.3.0", false),
        ("2001:db8:ffff::1", true),
        ("2001:db9::1", false),
    ] {
        assert_eq!(answered(limits(&trust), from), if all { 50 } else { 0 }, "{from}");
    }
}

/// Its own packets keep it; answers to it do not. And its id dies with it.
#[test]
fn a_client_that_has_vanished_is_forgotten() {
    let mut clients = table(1);
    let id = arrive(&mut clients, seconds(0), 1, 100);
    assert_eq!(clients.expire(seconds(119), id), Expiry::Later(seconds(120)));
    arrive(&mut clients, seconds(119), 1, 100);
    assert!(clients.answer(seconds(130), id, 10).is_ok());
    assert_eq!(clients.expire(seconds(120), id), Expiry::Later(seconds(239)));
    assert_eq!(clients.expire(seconds(239), id), Expiry::Forgotten(1));
    assert_eq!((clients.stats.expired, clients.stats.clients), (1, 0));

    let next = arrive(&mut clients, seconds(240), 2, 100);
    assert_eq!(next.slot, id.slot);
    assert_eq!(clients.answer(seconds(240), id, 1), Err(NotSent::Gone));
    assert!(clients.outlet(id).is_none() && clients.abandon(id).is_none());
    assert_eq!(clients.stats.stray, 1);
    assert_eq!(clients.expire(seconds(500), id), Expiry::None);
    assert_eq!(clients.stats.clients, 1);
    assert_eq!(clients.make_room(seconds(241)), Some(2));
    let limits = ClientLimits { most: 0, idle: Duration::ZERO, ..ClientLimits::default() };
    assert_eq!(Clients::<()>::new(limits).make_room(seconds(0)), None);
}

#[test]
fn a_client_is_answered_three_times_what_it_sent_whenever_it_sends() {
    let (now, source) = (Timestamp::ZERO, SocketAddr::from(([192, 0, 2, 1], 9)));
    let mut clients = Clients::new(ClientLimits::default());
    assert_eq!(clients.heard(now, source, 100), None);
    assert_eq!(clients.make_room(now), None);
    let client = clients.insert(now, source, 100, "its socket");
    assert_eq!(clients.answer(now, client, 300), Ok(source));
    assert_eq!(clients.answer(now, client, 1), Err(NotSent::Budget(source)));
    assert_eq!(clients.heard(now, source, 1), Some(client));
    assert_eq!(clients.answer(now, client, 4), Err(NotSent::Budget(source)));
    assert_eq!(clients.answer(now, client, 3), Ok(source));
}

/// However the hash distributes clients: all tables share one bound, and each has a reserved part of it.
#[test]
fn tables_of_several_threads_have_one_bound() {
    let limits = ClientLimits::default();
    let rates = PrefixRates::new(limits.answers_per_prefix);
    let table = |places| Clients::sharing(limits.clone(), rates.clone(), places);
    let mut tables: Vec<Clients<u32>> = Places::shared(16, 4).into_iter().map(table).collect();
    let mut numbers = 0..;
    let mut come = |table: &mut Clients<u32>, clients| {
        (0..clients).for_each(|_| _ = arrive(table, micros(0), numbers.next().unwrap(), 1));
        (table.stats.clients, table.stats.evicted)
    };
    // Two of its own, and all eight that are shared.
    assert_eq!(come(&mut tables[0], 10), (10, 0));
    assert_eq!(come(&mut tables[0], 1), (10, 1));
    // Their reserved places are untouched.
    assert_eq!(come(&mut tables[1], 2), (2, 0));
    assert_eq!(come(&mut tables[1], 1), (2, 1));
    for table in &mut tables[2..] {
        assert_eq!(come(table, 2), (2, 0));
    }
    assert_eq!(tables.iter().map(|table| table.stats.clients).sum::<u32>(), 16);
    // Places of clients that leave are shared again: after expiry, and without a socket.
    let (gone, _) = tables[0].in_slot(0).unwrap();
    assert!(matches!(tables[0].expire(seconds(500), gone), Expiry::Forgotten(_)));
    let (gone, _) = tables[0].in_slot(1).unwrap();
    assert!(tables[0].abandon(gone).is_some());
    assert_eq!(come(&mut tables[3], 3), (4, 1));
    assert_eq!(come(&mut tables[0], 1), (8, 2));
    assert_eq!(tables.iter().map(|table| table.stats.clients).sum::<u32>(), 16);
    // However many tables there are, each has one.
    assert!(Places::shared(1, 3).iter_mut().all(|places| places.has_room(0) && !places.has_room(1)));
    assert!(Places::shared(0, 0).is_empty());
}
