//! The kernel's view of a volume as text, which a guest can print.

use std::collections::BTreeMap;

use super::{escaped, merged};
use crate::digest::Digest;
use crate::view::{InodeView, OpenAttributes, Tree};

impl Tree {
    /// Returns one line of text for each inode, by inode number. Two views of a volume have equal
    /// lines if [`Differences::between`](crate::Differences::between) finds no difference. The
    /// fields of a line are separated by tabs, and each begins with its name.
    #[must_use]
    pub fn lines(&self) -> BTreeMap<u64, String> {
        self.nodes.iter().map(|(number, node)| (*number, line(node))).collect()
    }
}

fn line(node: &InodeView) -> String {
    let mut fields = vec![
        format!("paths {:?}", escaped(&node.paths)),
        format!("mode {:o}, links {}", node.mode, node.links),
        format!("owner {}:{}", node.uid, node.gid),
        format!("size {}, blocks {}", node.size, node.blocks),
        format!("accessed {:?}", node.accessed),
        format!("modified {:?}", node.modified),
        format!("changed {:?}", node.changed),
        format!("born {:?}", node.born),
        format!("device {:?}", node.device),
        format!(
            "target {:?}",
            node.target.as_ref().map(|target| target.escape_ascii().to_string())
        ),
        format!("contents {:?}", node.contents),
        format!("entries {:?}", node.entries),
    ];
    for (name, value) in &node.attributes {
        let mut digest = Digest::default();
        digest.update(value);
        fields.push(format!("attribute {} {digest:?}", name.escape_ascii()));
    }
    if let Some(opened) = &node.opened {
        add_opened(&mut fields, opened);
    }
    fields.join("\t")
}

fn add_opened(fields: &mut Vec<String>, opened: &OpenAttributes) {
    let OpenAttributes { flags, project_id, extent_size, cow_extent_size, extent_count, .. } =
        opened;
    fields.push(format!("flags {flags:?}"));
    fields.push(format!("project {project_id}"));
    fields.push(format!("extent sizes {extent_size}, {cow_extent_size}"));
    fields.push(format!("extent count {extent_count}"));
    fields.push(format!("extents {:?}", merged(&opened.extents)));
    fields.push(format!("attribute extents {:?}", merged(&opened.attribute_extents)));
}
