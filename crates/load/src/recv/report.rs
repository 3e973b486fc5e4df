//! The findings of a receiver: [`RecvReport`], made from its counts and from the state of each flow.

use serde::Serialize;
use softtimers_measure::distribution::{Distribution, Quantile};

use crate::gaps::{Extremes, GapReport};

/// The findings of a receiver. Counts are of datagrams.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct RecvReport {
    /// Traffic received, duplicates included.
    pub received: u64,
    /// Datagrams among them in no format of softtimers, measured with `--any`: without numbers and scheduled times. If
    /// there are any, the next four figures are unknown.
    pub unnumbered: u64,
    /// Sent, according to the sequence numbers and goodbyes, and not received in time; `null` if some had no number.
    pub lost: Option<u64>,
    /// Overtaken by a later one of the same flow; `null` if some had no number.
    pub reordered: Option<u64>,
    /// Received a second time; `null` if some had no number.
    pub duplicated: Option<u64>,
    /// Received more than 4,096 datagrams after its turn; counted as lost too; `null` if some had no number.
    pub too_late: Option<u64>,
    /// Gaps within each flow, by the kernel's receive timestamps; all flows together.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// How much longer or shorter these gaps are than the interval that the sender states, without those over a loss.
    pub gap_deviation_ns: Distribution,
    /// Packet delay variation (RFC 5481): the time from when a datagram was due at its sender to when it came, minus
    /// the minimum of its flow; all flows together. Duplicates and datagrams without numbers have none. With more than
    /// 64 flows, percentiles are relative to the minimum so far.
    pub one_way_variation_ns: Distribution,
    /// Different flows: by address, port and flow number; without a number, by address and port.
    pub flows: u64,
    /// Payload of the traffic.
    pub received_bytes: u64,
    /// From the first datagram to the last.
    pub span_s: f64,
    /// Datagrams per second of that span; `null` for fewer than two.
    pub received_pps: Option<f64>,
    /// Payload bits per second of that span.
    pub received_bps: Option<f64>,
    /// Dropped because this socket's receive buffer was full; these are among the lost. `null` if the kernel does not
    /// report it.
    pub socket_drops: Option<u64>,
    /// Not in the format of softtimers, of any version, and not measured; with `--any` only those that begin like it
    /// and are too short. In no other count.
    pub foreign: u64,
    /// In a version of this format, but not from an agreed sender; also datagrams and goodbyes that claim more than can
    /// have been sent. In no other count.
    pub strangers: u64,
    /// Datagrams of flows beyond the limit of 16,384; in no other count.
    pub unsorted: u64,
    /// Questions for consent answered.
    pub hellos: u64,
    /// The distribution of gaps, point by point.
    pub gap_cdf: Vec<Quantile>,
    /// Consecutive gaps from the middle of the run, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gap_strip_ns: Vec<u64>,
    /// All flows, however many.
    pub over_flows: FlowsReport,
    /// The first 64 flows.
    pub per_flow: Vec<FlowReport>,
    /// The five of several flows that lost most; of those that lost equally, the ones whose delay varied most, or else
    /// their gaps.
    pub worst_flows: Vec<FlowReport>,
}

/// One flow of a [`RecvReport`].
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct FlowReport {
    /// The sender's address and port.
    pub peer: String,
    /// The flow's number; for an agreed sender, its index among that sender's flows; `null` for datagrams without
    /// numbers.
    pub flow: Option<u32>,
    /// Datagrams that came, duplicates included.
    pub received: u64,
    /// Not received in time; `null` without numbers.
    pub lost: Option<u64>,
    /// Overtaken by a later one; `null` without numbers.
    pub reordered: Option<u64>,
    /// Received a second time; `null` without numbers.
    pub duplicated: Option<u64>,
    /// The mean of its gaps; `null` if it has none.
    pub gap_mean_ns: Option<f64>,
    /// The standard deviation of the gaps.
    pub gap_stddev_ns: Option<f64>,
    /// Its packet delay variation; without percentiles beyond the first 64 flows.
    pub one_way_variation_ns: Distribution,
    /// Whether the sender has sent its goodbyes.
    pub ended: bool,
}

/// Distributions with one value per flow, which show the worst without naming it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct FlowsReport {
    /// The number of flows.
    pub count: u64,
    /// The number of flows whose sender has sent goodbyes.
    pub ended: u64,
    /// Datagrams received of a flow.
    pub received: Distribution,
    /// Datagrams of a flow not received in time; empty if one has no numbers.
    pub lost: Distribution,
    /// The standard deviation of a flow's gaps.
    pub gap_stddev_ns: Distribution,
    /// The mean of a flow's one-way variation.
    pub one_way_variation_mean_ns: Distribution,
    /// Datagrams a second of a flow, from its first to its last.
    pub rate_pps: Extremes,
    /// The longest burst of all flows together: gaps between their datagrams, judged by half their common interval.
    /// Counted since the last new flow was heard; `null` without an interval.
    pub longest_train: Option<u64>,
}

impl RecvReport {
    /// Returns a report with every key, to check assertions by before a run.
    pub fn example() -> Self {
        RecvReport {
            per_flow: vec![FlowReport::default(); MOST_FLOWS_SHOWN],
            worst_flows: vec![FlowReport::default(); WORST_SHOWN],
            ..RecvReport::default()
        }
    }
}

/// Keeps a report readable; the totals cover all flows.
pub(super) const MOST_FLOWS_SHOWN: usize = 64;

/// The number of worst flows shown of many.
pub(super) const WORST_SHOWN: usize = 5;
