// The theme draws the copy button of every code block in a <nav>; many landmarks without a name help nobody.
const unmark = () => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "none");
};
new MutationObserver(unmark).observe(document.documentElement, { childList: true, subtree: true });
unmark();
