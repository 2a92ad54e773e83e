"use strict";
// Reads values off the charts. The page says everything without it, but for single points.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const areas = [...document.querySelectorAll(".area[data-chart]")];
  let at = null;

  const timeText = (seconds) => {
    if (seconds < 60) return seconds.toFixed(1) + "s";
    const whole = Math.round(seconds);
    const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return (h ? h + "h" : "") + m + "m" + s + "s";
  };
  const nearest = (segments) => {
    const near = data.seconds / 100; // of a lone point
    const segment =
      segments.find((one) => one[0][0] <= at && at <= one[one.length - 1][0]) ||
      segments.find((one) => one.length === 1 && Math.abs(one[0][0] - at) <= near);
    if (!segment) return null;
    return segment.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a))[1];
  };
  const shown = (chart, value) => {
    if (value === null) return "not known";
    const scaled = value / chart.unitSize;
    const text = scaled.toLocaleString("en", { maximumFractionDigits: scaled < 100 ? 1 : 0 });
    return chart.unit ? text + " " + chart.unit : text;
  };
  const update = () => {
    for (const area of areas) {
      const chart = data.charts.find((one) => one.key === area.dataset.chart);
      const cursor = area.querySelector(".cursor");
      const share = (100 * at) / data.seconds + "%";
      cursor.setAttribute("x1", share);
      cursor.setAttribute("x2", share);
      area.classList.add("reading");
      area.closest("figure").querySelector(".readout").textContent =
        "at " + timeText(at) + ": " +
        chart.lines.map((line) => line.name + " " + shown(chart, nearest(line.segments))).join(", ");
    }
  };
  const move = (seconds) => {
    at = Math.min(Math.max(seconds, 0), data.seconds);
    update();
  };
  for (const area of areas) {
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      move(((event.clientX - box.left) / box.width) * data.seconds);
    });
    area.setAttribute("tabindex", "0");
    area.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (steps) {
        event.preventDefault();
        move((at ?? 0) + (steps * data.seconds) / 200);
      }
    });
  }
})();
