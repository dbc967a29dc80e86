// Small repairs for the keyboard and for screen readers.
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

  // Sphinx calls the captions of the contents headings, without their level.
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.ariaLevel = "2";
});
