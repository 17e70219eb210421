//! The modules of the workspace's crates, as syn parses them, and the meaning of paths in them.
//!
//! Owns: loading modules, `cfg`, and following `use`. Does **not** own: the lines of the
//! API listing. Macros are not expanded: the call of a macro stands for the items that the macro
//! makes.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use proc_macro2::TokenTree;
use serde_json::Value;
use syn::{Attribute, Ident, Item, UseTree, Visibility};

use crate::error::Error;

/// Limit on the number of `use` declarations that the search for an item follows. A search that
/// needs more is assumed to run in a circle.
const MOST_USES: usize = 32;

/// The place where an item is defined: its crate, its module and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Definition {
    pub(super) module: ModulePath,
    pub(super) name: String,
}

/// A module: its crate, and the names of the modules from the crate's root to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModulePath {
    pub(super) krate: String,
    pub(super) names: Vec<String>,
}

impl ModulePath {
    pub(super) fn root(krate: &str) -> Self {
        Self { krate: krate.to_owned(), names: Vec::new() }
    }

    pub(super) fn child(&self, name: &str) -> Self {
        let mut names = self.names.clone();
        names.push(name.to_owned());
        Self { krate: self.krate.clone(), names }
    }

    fn parent(&self) -> Self {
        let mut names = self.names.clone();
        names.pop();
        Self { krate: self.krate.clone(), names }
    }
}

/// The module or item to which a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Module(ModulePath),
    Item(Definition),
    /// An item of a crate outside the workspace. The text is the path as the source writes it.
    Foreign(String),
}

/// A `use` of one name, or of all names of a module.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name that the `use` brings into the module. `None` for `use …::*`, which brings all
    /// names of the path.
    pub(super) name: Option<String>,
    pub(super) is_public: bool,
    /// Whether the name is private: visible only in the module itself and in the modules inside it.
    is_private: bool,
}

/// The state of a search for a name, and which `use` declarations the search takes into account.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    /// The number of `use` declarations that the search has followed.
    uses: usize,
    /// Whether the names that a `use …::*` brings are found. The path of such a `use` itself is
    /// looked up without these names.
    globs: bool,
    /// Whether names of private `use` declarations are found. They are found only for the first
    /// name of a path.
    privates: bool,
}

/// A module whose `cfg` conditions hold.
pub(super) struct Module {
    /// The items whose `cfg` conditions hold, in order, without `use` and child modules.
    pub(super) items: Vec<Item>,
    pub(super) imports: Vec<Import>,
    /// The names of the child modules, each with whether the child is public and documented.
    pub(super) children: Vec<(String, bool)>,
}

/// A crate of the workspace.
struct Crate {
    /// The folder of lib.rs, relative to the project.
    folder: String,
    features: Vec<String>,
}

/// The sources of all crates of the workspace.
pub(super) struct Sources {
    crates: HashMap<String, Crate>,
    files: HashMap<String, String>,
    modules: RefCell<BTreeMap<ModulePath, Rc<Module>>>,
}

impl Sources {
    /// Each crate has its default features, and `features` too.
    pub(super) fn new(metadata: &Value, files: Vec<(String, String)>, features: &[&str]) -> Self {
        let root = metadata["workspace_root"].as_str().unwrap_or_default();
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut crates: HashMap<_, _> =
            packages.flat_map(|package| library(package, root)).collect();
        for krate in crates.values_mut() {
            krate.features.extend(features.iter().map(|feature| (*feature).to_owned()));
        }
        Self { crates, files: files.into_iter().collect(), modules: RefCell::default() }
    }

    /// Returns a module, with all its children loaded.
    pub(super) fn module(&self, path: &ModulePath) -> Result<Rc<Module>, Error> {
        if let Some(module) = self.modules.borrow().get(path) {
            return Ok(Rc::clone(module));
        }
        self.load_crate(&path.krate)?;
        let module = self.modules.borrow().get(path).map(Rc::clone);
        module.ok_or_else(|| {
            Error::Api(format!("no module {} in {}", path.names.join("::"), path.krate))
        })
    }

    /// Returns all modules of a crate, each with its path.
    pub(super) fn modules_of(&self, krate: &str) -> Result<Vec<(ModulePath, Rc<Module>)>, Error> {
        self.module(&ModulePath::root(krate))?;
        let modules = self.modules.borrow();
        let own = modules.iter().filter(|(path, _)| path.krate == krate);
        Ok(own.map(|(path, module)| (path.clone(), Rc::clone(module))).collect())
    }

    fn load_crate(&self, krate: &str) -> Result<(), Error> {
        let Some(Crate { folder, .. }) = self.crates.get(krate) else {
            return Err(Error::Api(format!("{krate} is no crate of the workspace")));
        };
        let items = self.parse(&format!("{folder}/lib.rs"))?;
        self.load(ModulePath::root(krate), items, folder)
    }

    /// Loads a module. The files of its child modules are in `folder`.
    fn load(&self, path: ModulePath, items: Vec<Item>, folder: &str) -> Result<(), Error> {
        let mut module = Module { items: Vec::new(), imports: Vec::new(), children: Vec::new() };
        for item in items {
            if !self.is_enabled(&path.krate, attributes(&item)) {
                continue;
            }
            match item {
                Item::Use(item) => {
                    let mut imports = Vec::new();
                    flatten(&item.tree, Vec::new(), &mut imports);
                    let is_public = is_public(&item.vis) && !is_hidden(&item.attrs);
                    let is_private = matches!(item.vis, Visibility::Inherited);
                    let marked = |import| Import { is_public, is_private, ..import };
                    module.imports.extend(imports.into_iter().map(marked));
                }
                Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let is_listed = is_public(&child.vis) && !is_hidden(&child.attrs);
                    let below = format!("{folder}/{name}");
                    let items = match child.content {
                        Some((_, items)) => items,
                        None => self.parse(&format!("{below}.rs"))?,
                    };
                    self.load(path.child(&name), items, &below)?;
                    module.children.push((name, is_listed));
                }
                item => module.items.push(item),
            }
        }
        self.modules.borrow_mut().insert(path, Rc::new(module));
        Ok(())
    }

    fn parse(&self, path: &str) -> Result<Vec<Item>, Error> {
        let text = self.files.get(path).ok_or_else(|| Error::Api(format!("no file {path}")))?;
        let file = syn::parse_file(text).map_err(|error| Error::Api(format!("{path}: {error}")))?;
        Ok(file.items)
    }

    /// Returns whether every `cfg` of an item holds in a build for users with these features.
    pub(super) fn is_enabled(&self, krate: &str, attributes: &[Attribute]) -> bool {
        let features = self.crates.get(krate).map(|krate| krate.features.as_slice());
        let features = features.unwrap_or_default();
        attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).all(|attribute| {
            let condition = attribute.parse_args::<syn::Meta>();
            condition.is_ok_and(|condition| holds(&condition, features))
        })
    }

    /// Returns the targets of a path that is written in the module `from`. There can be several,
    /// because one name can name a module, a type and a function.
    pub(super) fn resolve(&self, from: &ModulePath, path: &[String]) -> Result<Vec<Target>, Error> {
        self.follow(from, path, Lookup { uses: 0, globs: true, privates: true })
    }

    fn follow(
        &self,
        from: &ModulePath,
        path: &[String],
        lookup: Lookup,
    ) -> Result<Vec<Target>, Error> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(vec![Target::Module(from.clone())]);
        };
        match first.as_str() {
            "crate" => return self.follow(&ModulePath::root(&from.krate), rest, lookup),
            "self" => return self.follow(from, rest, lookup),
            "super" => return self.follow(&from.parent(), rest, lookup),
            _ => {}
        }
        let found = self.inside(from, path, lookup)?;
        if !found.is_empty() {
            return Ok(found);
        }
        if !self.crates.contains_key(first) {
            return Ok(vec![Target::Foreign(path.join("::"))]);
        }
        let root = ModulePath::root(first);
        if rest.is_empty() {
            Ok(vec![Target::Module(root)])
        } else {
            self.inside(&root, rest, lookup)
        }
    }

    /// Returns the targets of a path as seen from the module `at`. The first name of `path` must be
    /// a name in this module, not that of a crate.
    fn inside(
        &self,
        at: &ModulePath,
        path: &[String],
        lookup: Lookup,
    ) -> Result<Vec<Target>, Error> {
        let Some((first, rest)) = path.split_first() else { return Ok(Vec::new()) };
        if rest.is_empty() {
            return self.names(at, first, lookup);
        }
        let below = Lookup { privates: false, ..lookup };
        // Only a module can lead on, so that `pub use errno::errno` does not ask for itself.
        if self.module(at)?.children.iter().any(|(child, _)| child == first) {
            return self.inside(&at.child(first), rest, below);
        }
        let mut targets = Vec::new();
        for target in self.names(at, first, lookup)? {
            match target {
                Target::Module(module) => targets.extend(self.inside(&module, rest, below)?),
                // A variant or an associated item, which belongs to its type.
                Target::Item(_) => {}
                Target::Foreign(name) => {
                    targets.push(Target::Foreign(format!("{name}::{}", rest.join("::"))));
                }
            }
        }
        Ok(targets)
    }

    /// Returns all modules and items that `name` can mean in the module `at`.
    fn names(&self, at: &ModulePath, name: &str, lookup: Lookup) -> Result<Vec<Target>, Error> {
        if lookup.uses > MOST_USES {
            return Err(Error::Api(format!("a circle of `use` leads to {name}")));
        }
        let module = self.module(at)?;
        let mut targets = Vec::new();
        if module.children.iter().any(|(child, _)| child == name) {
            targets.push(Target::Module(at.child(name)));
        }
        if module.items.iter().any(|item| defines(item, name)) {
            let definition = Definition { module: at.clone(), name: name.to_owned() };
            targets.push(Target::Item(definition));
        }
        let next = Lookup { uses: lookup.uses + 1, privates: true, ..lookup };
        let seen = |import: &&Import| lookup.privates || !import.is_private;
        for import in module.imports.iter().filter(seen) {
            if import.name.as_deref() == Some(name) {
                targets.extend(self.follow(at, &import.path, next)?);
            }
        }
        if targets.is_empty() && lookup.globs {
            for import in module.imports.iter().filter(seen).filter(|import| import.name.is_none())
            {
                for target in self.follow(at, &import.path, Lookup { globs: false, ..next })? {
                    if let Target::Module(module) = target {
                        let inside = Lookup { privates: false, ..next };
                        targets.extend(self.names(&module, name, inside)?);
                    }
                }
            }
        }
        Ok(targets)
    }
}

/// Returns the name of a package's library as Rust paths write it, and the library's folder.
/// Returns `None` if the package has no library.
fn library(package: &Value, root: &str) -> Option<(String, Crate)> {
    let targets = package["targets"].as_array()?;
    let is_library = |target: &&Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"))
    };
    let target = targets.iter().find(is_library)?;
    let path = target["src_path"].as_str()?.strip_prefix(root)?.trim_start_matches('/');
    let folder = path.strip_suffix("/lib.rs")?.to_owned();
    let features =
        package.pointer("/features/default").and_then(Value::as_array).into_iter().flatten();
    let default_features = features.filter_map(|feature| Some(feature.as_str()?.to_owned()));
    let name = target["name"].as_str()?.replace('-', "_");
    Some((name, Crate { folder, features: default_features.collect() }))
}

/// Returns whether a condition of `cfg` holds on Linux outside tests, with these cargo features.
fn holds(condition: &syn::Meta, features: &[String]) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("unix") || path.is_ident("debug_assertions"),
        syn::Meta::NameValue(pair) => {
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }) = &pair.value else {
                return false;
            };
            let value = value.value();
            (pair.path.is_ident("feature") && features.contains(&value))
                || (pair.path.is_ident("target_os") && value == "linux")
                || (pair.path.is_ident("target_pointer_width") && value == "64")
        }
        syn::Meta::List(list) => {
            let comma = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
            let Ok(inner) = list.parse_args_with(comma) else { return false };
            let mut inner = inner.iter().map(|condition| holds(condition, features));
            if list.path.is_ident("not") {
                inner.all(|holds| !holds)
            } else if list.path.is_ident("all") {
                inner.all(|holds| holds)
            } else {
                inner.any(|holds| holds)
            }
        }
    }
}

/// Appends an import for each name of a `use` tree to `imports`. The caller then sets the
/// visibility of these imports, which is that of the whole declaration.
fn flatten(tree: &UseTree, path: Vec<String>, imports: &mut Vec<Import>) {
    let with = |ident: &Ident| {
        let mut path = path.clone();
        path.push(ident.to_string());
        path
    };
    let import = |path, name| Import { path, name, is_public: false, is_private: true };
    match tree {
        UseTree::Path(tree) => flatten(&tree.tree, with(&tree.ident), imports),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, path.clone(), imports));
        }
        UseTree::Glob(_) => imports.push(import(path, None)),
        // `use a::{self}` names the module.
        UseTree::Name(tree) if tree.ident == "self" => {
            let name = path.last().cloned();
            imports.push(import(path, name));
        }
        UseTree::Name(tree) => {
            imports.push(import(with(&tree.ident), Some(tree.ident.to_string())))
        }
        UseTree::Rename(tree) => {
            let path = if tree.ident == "self" { path.clone() } else { with(&tree.ident) };
            imports.push(import(path, Some(tree.rename.to_string())));
        }
    }
}

/// Returns whether an item defines a type, a function, a constant or a trait with this name. A call
/// of a macro is taken to define every name in its arguments.
pub(super) fn defines(item: &Item, name: &str) -> bool {
    match item {
        Item::Macro(call) if call.ident.is_none() => {
            let is_name =
                |token: TokenTree| matches!(token, TokenTree::Ident(ident) if ident == name);
            call.mac.tokens.clone().into_iter().any(is_name)
        }
        item => ident(item).is_some_and(|ident| ident == name),
    }
}

/// Returns the name of an item. Returns `None` for an item without a name, such as an `impl`.
pub(super) fn ident(item: &Item) -> Option<&Ident> {
    Some(match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    })
}

/// Returns the attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

pub(super) const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns whether an item is marked with `#[doc(hidden)]`.
pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<Ident>().is_ok_and(|word| word == "hidden")
    })
}
