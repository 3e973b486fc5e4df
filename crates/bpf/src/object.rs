//! An object in the kernel, with its programs and maps, most of which have a value for each CPU: [`Object`].

use aya::maps::{Array, MapData};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, Pod};

use crate::Error;
use crate::error::{map_error, refused};

/// An object, loaded until this is dropped.
#[derive(Debug)]
pub(crate) struct Object {
    bpf: Ebpf,
    processors: u32,
}

/// The verifier's figures for a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// The name of the program.
    pub name: String,
    /// Instructions that the verifier processed, over all paths; `None` before Linux 5.16. The kernel's limit
    /// is a million.
    pub instructions: Option<u32>,
}

impl Object {
    /// Loads maps and programs, but attaches nothing. The given maps get a value for each CPU.
    pub(crate) fn load<'a>(
        loader: &mut EbpfLoader<'a>,
        of_each: &[&'a str],
        bytes: &[u8],
    ) -> Result<Object, Error> {
        let processors = processors()?;
        for map in of_each {
            loader.map_max_entries(map, processors);
        }
        let bpf = loader.load(bytes).map_err(|error| refused("maps", &error))?;
        Ok(Object { bpf, processors })
    }

    /// Returns the number of possible CPUs.
    pub(crate) fn processors(&self) -> u32 {
        self.processors
    }

    /// Loads the program `name` for `tracepoint`; the verifier checks it.
    pub(crate) fn load_at(&mut self, name: &str, tracepoint: &str, types: &Btf) -> Result<Verified, Error> {
        let program: &mut BtfTracePoint = self.program(name)?;
        program.load(tracepoint, types).map_err(|error| refused(name, &error))?;
        let instructions = program.info().ok().and_then(|info| info.verified_instruction_count());
        Ok(Verified { name: name.to_owned(), instructions })
    }

    /// Attaches the loaded program `name` until the link is dropped.
    pub(crate) fn attach(&mut self, name: &str) -> Result<BtfTracePointLink, Error> {
        let program: &mut BtfTracePoint = self.program(name)?;
        let link = program.attach().and_then(|link| program.take_link(link));
        link.map_err(|error| refused(name, &error))
    }

    /// The program `name`, of this kind.
    pub(crate) fn program<'a, P>(&'a mut self, name: &str) -> Result<&'a mut P, Error>
    where
        &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let missing =
            || Error::Refused { program: name.to_owned(), why: "the object does not contain it".to_owned() };
        let program = self.bpf.program_mut(name).ok_or_else(missing)?;
        program.try_into().map_err(|error| refused(name, &error))
    }

    /// Opens the map `name`.
    pub(crate) fn map<V: Pod>(&self, name: &str) -> Result<Array<&MapData, V>, Error> {
        let map = self.bpf.map(name).ok_or_else(|| missing(name))?;
        Array::try_from(map).map_err(map_error)
    }

    /// A value of the map `name`.
    pub(crate) fn value<V: Pod>(&self, name: &str, at: u32) -> Result<V, Error> {
        self.map(name)?.get(&at, 0).map_err(map_error)
    }

    /// Writes values of the map `name`, each at its index.
    pub(crate) fn write<V: Pod>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (u32, V)>,
    ) -> Result<(), Error> {
        let map = self.bpf.map_mut(name).ok_or_else(|| missing(name))?;
        let mut map: Array<_, V> = Array::try_from(map).map_err(map_error)?;
        values.into_iter().try_for_each(|(at, value)| map.set(at, value, 0)).map_err(map_error)
    }
}

fn missing(map: &str) -> Error {
    Error::Map(format!("{map} is missing"))
}

/// Returns the number of possible CPUs: their numbers are below this.
///
/// # Errors
/// If the system cannot be read.
pub fn processors() -> Result<u32, Error> {
    let count = aya::util::nr_cpus().map_err(|(_, error)| Error::System(error))?;
    Ok(count as u32)
}
