"use strict";
(function () {
  var root = document.documentElement;
  var table = document.getElementById("all");
  root.classList.add("js");
  if (!table) return;
  var body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows);
  var words = document.getElementById("filter");
  var verdict = document.getElementById("verdict");
  var shown = document.getElementById("shown");

  function key(row, column) {
    var cell = row.cells[column];
    var number = cell.getAttribute("data-n");
    return number === null ? cell.textContent : number === "" ? NaN : Number(number);
  }
  function sort(heading) {
    var column = heading.cellIndex;
    var descending = heading.getAttribute("aria-sort") === "ascending";
    Array.prototype.forEach.call(heading.parentNode.cells, function (other) {
      if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    });
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    var keyed = rows.map(function (row, place) { return { row: row, key: key(row, column), place: place }; });
    keyed.sort(function (a, b) {
      // What has no number is last, whichever way the rest is sorted.
      var undefinedLast = (a.key !== a.key) - (b.key !== b.key);
      if (undefinedLast) return undefinedLast;
      var order = typeof a.key === "string" ? a.key.localeCompare(b.key, "en", { numeric: true }) : a.key - b.key;
      return (descending ? -order : order) || a.place - b.place;
    });
    keyed.forEach(function (entry) { body.appendChild(entry.row); });
  }
  function filter() {
    var wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    var only = verdict ? verdict.value : "";
    var count = 0;
    rows.forEach(function (row) {
      var text = row.cells[0].textContent.toLowerCase();
      var fits = wanted.every(function (word) { return text.indexOf(word) >= 0; });
      fits = fits && (!only || row.getAttribute("data-verdict") === only);
      row.hidden = !fits;
      count += fits;
    });
    shown.textContent = count + " of " + rows.length + " shown";
  }
  Array.prototype.forEach.call(table.tHead.rows[0].cells, function (heading) {
    var button = heading.querySelector("button");
    if (button) button.addEventListener("click", function () { sort(heading); });
  });
  words.addEventListener("input", filter);
  if (verdict) verdict.addEventListener("change", filter);
  Array.prototype.forEach.call(document.querySelectorAll("a[data-verdict]"), function (link) {
    link.addEventListener("click", function () {
      verdict.value = link.getAttribute("data-verdict");
      filter();
    });
  });
  filter();
})();
