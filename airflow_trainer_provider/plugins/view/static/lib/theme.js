// Airflow's theme: light or dark as chosen there, and the colours that a deployment has set.

const TOKENS = {
  "--bg": "bg", "--bg-subtle": "bg-subtle", "--bg-muted": "bg-muted", "--bg-emph": "bg-emphasized",
  "--fg": "fg", "--fg-muted": "fg-muted", "--border": "border", "--border-emph": "border-emphasized",
  "--brand-solid": "brand-solid", "--brand-muted": "brand-muted", "--brand-fg": "brand-fg",
  "--st-queued": "queued-solid", "--st-starting": "up_for_reschedule-solid", "--st-running": "running-solid",
  "--st-restarting": "restarting-solid", "--st-succeeded": "success-solid", "--st-failed": "failed-solid",
  "--st-cancelled": "removed-solid",
};

/** The root element of Airflow's page; null if this page is not in Airflow's frame. */
function airflowRoot() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null;
  }
}

function chosen(root) {
  for (const theme of ["dark", "light"]) if (root && root.classList.contains(theme)) return theme;
  const kept = (localStorage.getItem("theme") || "system").replace(/"/g, "");
  if (kept === "dark" || kept === "light") return kept;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function apply() {
  const root = airflowRoot();
  const own = document.documentElement;
  own.dataset.theme = chosen(root);
  if (!root) return;
  const style = window.parent.getComputedStyle(root);
  for (const [token, name] of Object.entries(TOKENS)) {
    const color = style.getPropertyValue(`--chakra-colors-${name}`).trim();
    if (color) own.style.setProperty(token, color);
    else own.style.removeProperty(token);
  }
}

/** Follow Airflow's theme from now on. */
export function followTheme() {
  apply();
  addEventListener("storage", (event) => event.key === "theme" && apply());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  const root = airflowRoot();
  // Airflow sets its class some time after it has stored the choice.
  if (root) new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ["class", "style"] });
}
