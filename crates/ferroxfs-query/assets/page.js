"use strict";
// The page is complete without this script. It shows the tile under the pointer, and sorts tables.
for (const map of document.querySelectorAll(".map")) {
  const line = document.getElementById(map.dataset.line);
  const first = line.textContent;
  const show = (event) => {
    const tile = event.target.closest(".tile");
    line.textContent = tile ? tile.dataset.about : first;
  };
  map.addEventListener("pointerover", show);
  map.addEventListener("focusin", show);
  map.addEventListener("pointerleave", () => { line.textContent = first; });
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const place = [...head.parentNode.children].indexOf(head);
    const body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.children[place].dataset.value ?? row.children[place].textContent;
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      return numbers ? Number(x) - Number(y) : x < y ? -1 : x > y ? 1 : 0;
    };
    const rows = [...body.rows].sort((a, b) => down ? compare(b, a) : compare(a, b));
    body.append(...rows);
  });
}
