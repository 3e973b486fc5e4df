//! softtimers in tokio, on its single-threaded runtime, with the same slack as the heap's: a [`Pacer`] and a send for
//! each flow's task; or all flows in one [`PacedSender`], whose datagrams a task for each flow awaits, or queues when
//! the flow begins.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use softtimers_tokio::paced_sender::PacedSender;
use softtimers_tokio::paced_sender::{FlowConfig, Limits, QueueConfig};
use softtimers_tokio::{PaceConfig, Pacer, Rate, Slack, sleep, sleep_until};
use tokio::net::UdpSocket;

use crate::Load;
use crate::heap_slack::SLACK;
use crate::lanes::Lanes;
use crate::task_each::{Flow, spawn};

pub(crate) fn pacers(load: &Load, lanes: Lanes) -> Result<Lanes> {
    spawn(
        load,
        lanes,
        |_| Ok(()),
        async |mut flow: Flow, ()| {
            sleep_until(flow.first).await;
            let mut pacer = Pacer::every(flow.interval)?.with_slack(Slack::within(SLACK));
            while flow.place < flow.end {
                pacer.tick().await;
                flow.send().await?;
            }
            Ok(())
        },
    )
}

pub(crate) fn awaited(load: &Load, lanes: Lanes) -> Result<Lanes> {
    spawn(load, lanes, sender, async |mut flow: Flow, sender| {
        let paced = begin(&flow, &sender).await?;
        while flow.place < flow.end {
            sender.send_to(&paced, flow.write()).await?;
        }
        Ok(())
    })
}

pub(crate) fn queued(load: &Load, lanes: Lanes) -> Result<Lanes> {
    spawn(load, lanes, sender, async |mut flow: Flow, sender| {
        let paced = begin(&flow, &sender).await?;
        let end = flow.first + flow.end.saturating_duration_since(flow.place);
        while flow.place < flow.end {
            sender.queue(&paced, flow.write())?;
        }
        sleep_until(end).await;
        while sender.flow_stats(&paced).is_some_and(|stats| stats.waiting > 0) {
            sleep(LOOK).await;
        }
        Ok(())
    })
}

fn sender(socket: &Arc<UdpSocket>) -> Result<PacedSender> {
    let config = QueueConfig { packets: MOST_PACKETS, slack: SLACK, ..QueueConfig::default() };
    Ok(PacedSender::with_config(socket, config)?)
}

/// A flow of the sender, from its first scheduled time on.
async fn begin(flow: &Flow, sender: &PacedSender) -> Result<softtimers_tokio::paced_sender::Flow> {
    sleep_until(flow.first).await;
    let mut config = FlowConfig::new(PaceConfig::new(Rate::every(flow.interval)?));
    config.limits = Limits { packets: MOST_PACKETS, ..Limits::default() };
    Ok(sender.add(flow.to()?, config)?)
}

/// More packets than any load has.
const MOST_PACKETS: u32 = 10_000_000;
const LOOK: Duration = Duration::from_millis(50);
