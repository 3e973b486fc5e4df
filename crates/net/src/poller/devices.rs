//! [`Devices`]: the devices of a poller, each with its counts.

use softtimers_poll::SourceId;

/// The devices of a [`Poller`](super::Poller), found by their ids: after one is removed, a new one in its
/// place has another id.
#[derive(Debug)]
pub struct Devices<D> {
    /// At the indices of their ids.
    places: Vec<Option<Installed<D>>>,
}

/// A device in its place.
#[derive(Debug)]
pub(super) struct Installed<D> {
    pub(super) id: SourceId,
    pub(super) device: D,
    pub(super) tally: Tally,
}

/// Counts of a device's packets and of its output, by its handlers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Whether packets wait to be sent.
    pub(super) wanted: bool,
    /// Its packets that no output accepted.
    pub(super) refused: u64,
    /// Its packets that a rule dropped.
    pub(super) by_rule: u64,
}

impl<D> Devices<D> {
    pub(super) const fn new() -> Self {
        Devices { places: Vec::new() }
    }

    /// The device of this name.
    pub fn get(&self, id: SourceId) -> Option<&D> {
        let place = self.places.get(id.index())?.as_ref()?;
        (place.id == id).then_some(&place.device)
    }

    /// The device of this name.
    pub fn get_mut(&mut self, id: SourceId) -> Option<&mut D> {
        self.place(id).map(|place| &mut place.device)
    }

    /// All of them, in order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &D)> {
        self.places.iter().flatten().map(|place| (place.id, &place.device))
    }

    /// All of them, in order of their indices.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (SourceId, &mut D)> {
        self.places().map(|place| (place.id, &mut place.device))
    }

    pub(super) fn insert(&mut self, id: SourceId, device: D) {
        let index = id.index();
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some(Installed { id, device, tally: Tally::default() });
    }

    pub(super) fn remove(&mut self, id: SourceId) -> Option<Installed<D>> {
        self.places.get_mut(id.index())?.take_if(|place| place.id == id)
    }

    pub(super) fn place(&mut self, id: SourceId) -> Option<&mut Installed<D>> {
        self.places.get_mut(id.index())?.as_mut().filter(|place| place.id == id)
    }

    pub(super) fn places(&mut self) -> impl Iterator<Item = &mut Installed<D>> {
        self.places.iter_mut().flatten()
    }

    /// One of them, and the others before and after it.
    pub(super) fn split(&mut self, id: SourceId) -> Option<(Others<'_, D>, &mut Installed<D>)> {
        let (before, rest) = self.places.split_at_mut_checked(id.index())?;
        let (place, after) = rest.split_first_mut()?;
        let place = place.as_mut().filter(|place| place.id == id)?;
        Some((Others { before, after }, place))
    }
}

/// All devices but one.
#[derive(Debug)]
pub(super) struct Others<'a, D> {
    before: &'a mut [Option<Installed<D>>],
    after: &'a mut [Option<Installed<D>>],
}

impl<D> Others<'_, D> {
    pub(super) fn reborrow(&mut self) -> Others<'_, D> {
        Others { before: self.before, after: self.after }
    }

    pub(super) fn place(&mut self, id: SourceId) -> Option<&mut Installed<D>> {
        let place = match id.index().checked_sub(self.before.len()) {
            None => self.before.get_mut(id.index()),
            Some(beyond) => self.after.get_mut(beyond.checked_sub(1)?),
        };
        place?.as_mut().filter(|place| place.id == id)
    }
}
