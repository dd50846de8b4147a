/** Menu, light and dark theme, copy buttons and search. The pages can be read without it. */
const up = document.body.dataset.up ?? "";
const menu = document.querySelector("#menu");
const input = document.querySelector("#search");
const results = document.querySelector("#results");

menu.addEventListener("click", () => {
  const open = document.body.classList.toggle("menu-open");
  menu.setAttribute("aria-expanded", String(open));
});

document.querySelector("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

document.querySelector('nav [aria-current="page"]')?.scrollIntoView({ block: "nearest" });

for (const block of document.querySelectorAll(".code")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    const say = (words) => () => (button.textContent = words);
    const copied = navigator.clipboard.writeText(block.querySelector("code").textContent.trimEnd());
    void copied.then(say("Copied"), say("Not allowed"));
    setTimeout(say("Copy"), 1_500);
  });
  block.append(button);
}

/** Created at the first search, because most readers do not search. */
let search;
function find(words) {
  search ??= window.MiniSearch.loadJSON(window.searchIndex, {
    fields: ["title", "words"],
    storeFields: ["title", "page", "address"],
  });
  return search.search(words, { prefix: true, fuzzy: 0.15, boost: { title: 3 }, combineWith: "AND" }).slice(0, 12);
}

function show() {
  const words = input.value.trim();
  const found = words === "" ? [] : find(words);
  results.replaceChildren(...found.map(toItem));
  if (words !== "" && found.length === 0) {
    const none = document.createElement("li");
    none.textContent = "Nothing was found.";
    results.append(none);
  }
  results.hidden = words === "";
}

function toItem({ title, page, address }) {
  const [item, link, where] = ["li", "a", "small"].map((name) => document.createElement(name));
  link.href = up + address;
  link.textContent = title;
  where.textContent = page;
  link.append(where);
  item.append(link);
  return item;
}

input.addEventListener("input", show);
input.addEventListener("focus", show);
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) results.hidden = true;
});
document.addEventListener("keydown", (event) => {
  const links = [...results.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const isTyping = event.target.closest("input, textarea");
  if (event.key === "/" && !isTyping) input.focus();
  else if (event.key === "Escape" && !results.hidden) {
    results.hidden = true;
    input.blur();
  } else if (event.key === "ArrowDown" && (at >= 0 || event.target === input)) links[at + 1]?.focus();
  else if (event.key === "ArrowUp" && at >= 0) (links[at - 1] ?? input).focus();
  else if (event.key === "Enter" && event.target === input) links[0]?.click();
  else return;
  event.preventDefault();
});
