// Bring the elements on the page to the state of a freshly built tree, in place: focus, scroll position, selection and
// open menus stay, because the elements do.

const HANDLERS = ["onclick", "onkeydown", "oninput", "onchange", "onpointermove", "onpointerleave", "onblur", "onfocus"];

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);

function sameKind(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) if (name !== "style" && name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // The content security policy forbids the attribute; the object model is allowed.
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const name of HANDLERS) if (old[name] !== fresh[name]) old[name] = fresh[name];
}

function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const match = keyOf(child) ? keyed.get(keyOf(child)) : at;
    if (!match || !sameKind(match, child)) {
      old.insertBefore(child, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    morph(match, child);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Make `old` equal to `fresh`. Children of an element with `data-own` belong to its module and are left alone. */
export function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  morphAttributes(old, fresh);
  if (!fresh.hasAttribute("data-own")) morphChildren(old, fresh);
}
