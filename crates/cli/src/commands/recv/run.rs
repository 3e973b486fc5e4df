//! A run of `recv`: it listens, announces its address, and receives.

use softtimers_load::recv::{BindError, Receiver, RecvConfig, RecvReport};
use softtimers_measure::failure::Failure;

use super::args::Recv;
use super::show::header;

use crate::address::bind_failure;
use crate::commands::traffic_page::Page;
use crate::run::output::{Object, Output, say};
use crate::run::privileges::{Confined, Needs, Rights};
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Recv {
    type Config = RecvConfig;
    type Report = RecvReport;
    // The sender is most often another program on this machine.
    const DISTURBED_BY: Disturbance = Disturbance::Host;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> RecvConfig {
        self.config.clone()
    }

    fn header(&self) -> String {
        header(&self.config)
    }

    fn example(&self) -> RecvReport {
        RecvReport::example()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<RecvReport>, Failure> {
        self.open = Page::open(&self.page.0, self.page.1, run)?;
        let mut receiver = Receiver::bind(&self.plan).map_err(|error| match error {
            BindError::Address(error) => bind_failure(self.plan.local, &error),
            BindError::Socket(error) => Failure::not_possible(format_args!("a UDP socket: {error}")),
        })?;
        run.drop_privileges(Needs::confined(Confined::default()))?;
        let interrupt = run.interrupt()?;
        run.watch();
        say(format_args!("listening on {}", receiver.address()));
        run.announce(&header(&receiver.config()));
        let counter = run.counter(self.plan.stats())?;
        let _progress = run.begin(self, "receiving", self.plan.end.duration);
        let received = receiver.receive(interrupt, counter);
        self.config = receiver.config();
        let fallbacks = receiver.fallbacks().to_vec();
        Ok(Outcome { fallbacks, broke_off: received.err(), ..Outcome::of(receiver.report()) })
    }

    fn print(&mut self, object: &Object<'_, RecvReport, RecvConfig>) -> Result<(), Failure> {
        let printed = self.output().finish::<Self, _, _>(object);
        let Some(page) = self.open.take() else { return printed };
        let (verdict, machine) = (header(object.config), object.machine.place());
        printed.and(page.write("softtimers recv", verdict, machine, &object.to_json::<Self>()?))
    }
}
