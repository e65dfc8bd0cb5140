// A filter that is typed in, instead of chosen from a list of links.
"use strict";
document.addEventListener("change", (event) => {
  const field = event.target.closest("[data-ddj-filter]");
  if (!field) return;
  const query = new URLSearchParams(location.search);
  // Another filter begins at the newest job again.
  for (const name of ["after", "before", "e"]) query.delete(name);
  if (field.value) query.set(field.dataset.ddjFilter, field.value);
  else query.delete(field.dataset.ddjFilter);
  location.search = query.toString();
});
