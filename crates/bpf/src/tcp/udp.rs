//! The rate of UDP sockets of a cgroup: [`Udp`].

use std::os::fd::AsFd;

use aya::Ebpf;
use aya::programs::CgroupSockAddr;
use aya::programs::cgroup_sock_addr::CgroupSockAddrLink;
use aya::programs::links::CgroupAttachMode;

use crate::Error;
use crate::error::refused;

/// The programs that see a UDP socket when it connects, or sends without.
#[derive(Debug, Default)]
pub(crate) struct Udp {
    /// Detached when they are dropped.
    links: Vec<CgroupSockAddrLink>,
}

impl Udp {
    /// Loads the programs.
    ///
    /// # Errors
    /// If the kernel lets none of them set a rate.
    pub(crate) fn load(bpf: &mut Ebpf) -> Result<Self, Error> {
        for name in PROGRAMS {
            program(bpf, name)?.load().map_err(|error| refused(name, &error))?;
        }
        Ok(Udp::default())
    }

    /// Also holds for sockets of this cgroup.
    ///
    /// # Errors
    /// If it is no cgroup, or the kernel refuses.
    pub(crate) fn attach(&mut self, bpf: &mut Ebpf, cgroup: &impl AsFd) -> Result<(), Error> {
        for name in PROGRAMS {
            let program = program(bpf, name)?;
            let link = program.attach(cgroup.as_fd(), CgroupAttachMode::Single);
            let link = link.and_then(|id| program.take_link(id)).map_err(|error| refused(name, &error))?;
            self.links.push(link);
        }
        Ok(())
    }
}

fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut CgroupSockAddr, Error> {
    let missing =
        || Error::Refused { program: name.to_owned(), why: "the object does not contain it".to_owned() };
    bpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|error| refused(name, &error))
}

const PROGRAMS: [&str; 4] = ["udp_connects4", "udp_connects6", "udp_sends4", "udp_sends6"];
