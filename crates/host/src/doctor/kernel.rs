//! Parts that the kernel was built with, if that is known: from its configuration, else from its modules.

use super::machine::Machine;

/// Availability of a part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The part is built in, or its module is loaded.
    Ready,
    /// The part is a module that `modprobe` would load.
    Loadable,
    /// The part was not built.
    Absent,
    /// Availability is not known on this host.
    Unknown,
}

/// The kernel's configuration and the modules installed for it.
pub(super) struct Kernel<'m> {
    machine: &'m Machine,
    config: Option<String>,
    built_in: Option<String>,
    modules: Option<String>,
}

impl<'m> Kernel<'m> {
    /// Reads the sources that exist: `/proc/config.gz`, which not every kernel has, else the file that distributions
    /// install.
    pub(super) fn of(machine: &'m Machine) -> Self {
        let release = machine.kernel_release();
        let unpacked = machine.run(&["zcat", "/proc/config.gz"]).ok();
        let modules = format!("/lib/modules/{release}");
        Self {
            machine,
            config: unpacked.or_else(|| machine.read(&format!("/boot/config-{release}"))),
            built_in: machine.read(&format!("{modules}/modules.builtin")),
            modules: machine.read(&format!("{modules}/modules.dep")),
        }
    }

    /// Returns the presence of the part that `option` (`CONFIG_VFIO_PCI`) builds as `module` (`vfio-pci`).
    pub(super) fn has(&self, option: &str, module: &str) -> Presence {
        let loaded = format!("/sys/module/{}", module.replace('-', "_"));
        if self.machine.exists(&loaded) {
            return Presence::Ready;
        }
        let object = format!("/{module}.ko");
        let listed = |text: &Option<String>| text.as_ref().map(|t| t.contains(&object));
        match (self.value(option), &self.config) {
            (Some("y"), _) => Presence::Ready,
            // The configuration names it, but the image of a container, or a trimmed one, may lack the file.
            (Some("m"), _) if listed(&self.modules) == Some(false) => Presence::Absent,
            (Some("m"), _) => Presence::Loadable,
            (_, Some(_)) => Presence::Absent,
            (_, None) => match (listed(&self.built_in), listed(&self.modules)) {
                (Some(true), _) => Presence::Ready,
                (_, Some(true)) => Presence::Loadable,
                (_, Some(false)) => Presence::Absent,
                (_, None) => Presence::Unknown,
            },
        }
    }

    /// Returns whether a yes-or-no option is set; `None` if the configuration can't be read.
    pub(super) fn is_set(&self, option: &str) -> Option<bool> {
        self.config.as_ref().map(|_| self.value(option).is_some())
    }

    fn value(&self, option: &str) -> Option<&str> {
        let lines = self.config.as_deref()?.lines();
        lines
            .filter_map(|line| line.split_once('='))
            .find_map(|(key, value)| (key == option).then_some(value))
    }
}
