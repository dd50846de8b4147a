/** Sets the theme before the first paint: the one last chosen here, otherwise the system's. */
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
