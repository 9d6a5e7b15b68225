//! Policy sets by power supply, as the file of persistent settings has them.

use wakepath_policies::PolicySet;

use crate::PowerSupply;

/// Policy sets by power supply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SupplySets {
    /// The policy set for a power supply that has no set of its own.
    pub any_supply: Option<PolicySet>,
    /// The policy set for mains power.
    pub mains: Option<PolicySet>,
    /// The policy set for battery power.
    pub battery: Option<PolicySet>,
}

/// Keys of the sets in the file: for any supply, mains and battery.
const KEYS: [&str; 3] = ["policy", "mains", "battery"];

impl SupplySets {
    /// Parses the texts of the three keys. `parse` gets a key with its text.
    ///
    /// # Errors
    /// The first error of `parse`.
    pub(crate) fn parse_texts(
        [any_supply, mains, battery]: [Option<String>; 3],
        parse: impl Fn(&str, Option<String>) -> Result<Option<PolicySet>, String>,
    ) -> Result<Self, String> {
        Ok(Self {
            any_supply: parse(KEYS[0], any_supply)?,
            mains: parse(KEYS[1], mains)?,
            battery: parse(KEYS[2], battery)?,
        })
    }

    /// Each key with its set.
    pub(crate) fn keys_and_sets(&self) -> [(&'static str, Option<&PolicySet>); 3] {
        let [any_supply, mains, battery] = KEYS;
        [
            (any_supply, self.any_supply.as_ref()),
            (mains, self.mains.as_ref()),
            (battery, self.battery.as_ref()),
        ]
    }

    /// The sets that there are.
    pub(crate) fn present(&self) -> impl Iterator<Item = &PolicySet> {
        self.keys_and_sets().into_iter().filter_map(|(_, set)| set)
    }

    /// The set that only this supply has.
    pub(crate) const fn own_set_for_supply(&self, supply: PowerSupply) -> Option<&PolicySet> {
        match supply {
            PowerSupply::Mains => self.mains.as_ref(),
            PowerSupply::Battery => self.battery.as_ref(),
        }
    }

    /// The set for one supply, or, with `None`, for those without a set of their own.
    pub(crate) const fn own_or_any_set_mut(
        &mut self,
        supply: Option<PowerSupply>,
    ) -> &mut Option<PolicySet> {
        match supply {
            None => &mut self.any_supply,
            Some(PowerSupply::Mains) => &mut self.mains,
            Some(PowerSupply::Battery) => &mut self.battery,
        }
    }

    /// The key, and the policy set, for a power supply; `None`: with this supply everything stays as it is.
    pub(crate) fn key_and_set_for_supply(
        &self,
        supply: PowerSupply,
    ) -> Option<(&'static str, &PolicySet)> {
        let [any_supply, mains, battery] = self.keys_and_sets();
        let own = match supply {
            PowerSupply::Mains => mains,
            PowerSupply::Battery => battery,
        };
        [own, any_supply]
            .into_iter()
            .find_map(|(key, set)| Some((key, set?)))
    }
}
