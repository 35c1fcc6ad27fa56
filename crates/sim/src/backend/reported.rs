//! The parameter values that a client has been sent by ParameterStatus.

use wire::backend::ParameterStatus;

use crate::parameters::{self, Values};
use crate::state::{Moment, State};

#[derive(Debug)]
pub(super) struct Reported {
    values: Values,
    /// The state at which they were these values.
    at: Moment,
}

/// The reported parameters in this state.
pub(super) fn values(state: &State) -> Values {
    parameters::values(|name| state.setting(name))
}

impl Reported {
    /// The client knows the values of this state.
    pub(super) fn new(state: &State) -> Reported {
        Reported { values: values(state), at: state.moment() }
    }

    /// Reports the parameters that have changed since.
    pub(super) fn report(&mut self, state: &State, out: &mut Vec<u8>) {
        if state.is_same_as(&self.at) {
            return;
        }
        let now = Reported::new(state);
        for parameter in (0..parameters::COUNT).filter(|&at| self.values[at] != now.values[at]) {
            let (name, value) = (parameters::NAMES[parameter], parameters::value(parameter, now.values[parameter]));
            ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        *self = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_reported_once_and_only_if_it_is_another() {
        let mut state = State::new(parameters::settings(parameters::DEFAULTS), "user1");
        let mut reported = Reported::new(&state);
        let mut report = |state: &State| {
            let mut out = Vec::new();
            reported.report(state, &mut out);
            out.escape_ascii().to_string()
        };
        state.set("timezone", Some("Asia/Tokyo".to_owned()), false);
        state.set("work_mem", Some("8MB".to_owned()), false);
        assert_eq!(report(&state), r"S\x00\x00\x00\x18TimeZone\x00Asia/Tokyo\x00");
        assert_eq!(report(&state), "");
        state.set("timezone", Some("UTC".to_owned()), true);
        state.set("timezone", Some("Asia/Tokyo".to_owned()), true);
        assert_eq!(report(&state), "");
    }
}
