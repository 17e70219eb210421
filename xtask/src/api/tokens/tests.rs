use super::print;

/// Checks that printing the tokens of `text` gives `text` again.
fn check(text: &str) {
    let tokens: proc_macro2::TokenStream = text.parse().unwrap();
    assert_eq!(print(tokens), text);
}

#[test]
fn last_comma_and_mutable_self_are_left_out() {
    let tokens: proc_macro2::TokenStream = "fn a(mut self, b: u8,) -> Self".parse().unwrap();
    assert_eq!(print(tokens), "fn a(self, b: u8) -> Self");
}

#[test]
fn signatures_are_printed_as_written() {
    check("fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error>");
    check("fn open(path: impl AsRef<Path>) -> Result<Self, OpenError>");
    check("const fn new(a: [u8; 16], b: (u32, u32)) -> [u8; 4]");
    check("fn get<'a>(&'a self, name: &'a OsStr) -> Option<&'a mut T>");
    check("fn notify(self: Arc<Self>, call: Box<dyn Fn(&str) -> bool + Send + 'static>)");
    check("fn each<F>(&self, f: F) -> io::Result<()> where F: FnMut(&[u8]) -> bool");
    check("fn map<T: Iterator<Item = u8> + ?Sized>(t: *const T, g: for<'a> fn(&'a u8))");
    check("fn one(a: (u8,), b: Foo<'a>) where Foo<'a>: Send");
    check("fn nested(a: Vec<Vec<u8>>) -> <T as Trait>::Item");
}
