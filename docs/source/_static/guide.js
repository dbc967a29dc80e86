// Small repairs for the keyboard and for screen readers; and what the buttons of listings copy.
document.addEventListener("DOMContentLoaded", () => {
  // What scrolls sideways can be reached and scrolled from the keyboard.
  const mark = () => {
    for (const box of document.querySelectorAll(".table-wrapper, .highlight pre")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  mark();
  window.addEventListener("resize", mark);
  document.addEventListener("toggle", mark, true);
  document.addEventListener("change", mark);

  // Code that stands on its own, where the page has it (weaver/weaver/pages/copied.py). The buttons are there by now: the script
  // that makes them is loaded before this one.
  for (const text of document.querySelectorAll(".copied")) {
    const button = text.parentElement.querySelector(".copybtn");
    if (button) {
      button.dataset.clipboardTarget = `#${text.id}`;
      button.title = text.title;
    }
  }

  // Two parts beside the page, which a screen reader lists by name.
  for (const [part, name] of [[".sidebar-drawer", "All pages"], [".toc-drawer", "This page"]]) {
    const box = document.querySelector(part);
    if (box) box.ariaLabel = name;
  }

  // The corner of a table whose rows have names is no heading.
  for (const corner of document.querySelectorAll("th")) {
    if (corner.textContent.trim()) continue;
    const cell = document.createElement("td");
    cell.className = corner.className;
    corner.replaceWith(cell);
  }

  // Sphinx calls the captions of the contents headings, without their level.
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.ariaLevel = "2";
});
