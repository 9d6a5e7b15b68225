//! Reads the device tree, whose texts end with a zero byte.

use crate::Root;

/// Places of the device tree in a machine's files; on a running machine the first is a link to the second.
const PLACES: [&str; 2] = ["proc/device-tree", "sys/firmware/devicetree/base"];

/// Reads the strings in a property of the device tree; empty if missing.
pub(super) fn read_device_tree_strings(root: &Root, property: &str) -> Vec<String> {
    let mut read = PLACES
        .iter()
        .filter_map(|place| root.read_bytes(&format!("{place}/{property}")).ok());
    let bytes = read.next().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let parts = text.split(['\0', '\n']).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Whether the device tree has a node with this name.
pub(super) fn has_device_tree_node(root: &Root, node: &str) -> bool {
    PLACES
        .iter()
        .any(|place| root.exists(&format!("{place}/{node}")))
}
