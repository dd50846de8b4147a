/** Before anything is painted: what was chosen here last, else what the system says. */
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
