// A chart of lines or stems with a pointer to read values; colours and markers are those of the report.
const HEIGHT = 290, LEFT = 62, RIGHT = 16, TOP = 12, BOTTOM = 46;
export default {
  template: `
    <figure class="chart">
      <svg ref="drawing" :viewBox="'0 0 ' + W + ' ' + H" role="img" :aria-label="alt" tabindex="0" @pointermove="point"
        @pointerleave="near = null" @keydown="key" @blur="near = null">
        <g v-if="empty"><rect class="blank" :x="L" :y="T" :width="W - L - R" :height="H - T - B"></rect>
          <text :x="(L + W - R) / 2" :y="(T + H - B) / 2" text-anchor="middle">Nothing computed yet.</text></g>
        <g v-else class="grid">
          <g v-for="t in xticks"><line :x1="X(t)" :x2="X(t)" :y1="T" :y2="H - B"></line>
            <text :x="X(t)" :y="H - B + 18" text-anchor="middle">{{ number(t) }}</text></g>
          <g v-for="t in yticks"><line :x1="L" :x2="W - R" :y1="Y(t)" :y2="Y(t)"></line>
            <text :x="L - 8" :y="Y(t) + 4" text-anchor="end">{{ number(t) }}</text></g>
        </g>
        <text class="axis" :x="(L + W - R) / 2" :y="H - 8" text-anchor="middle">{{ xlabel }}</text>
        <text class="axis" :transform="'translate(15 ' + (T + H - B) / 2 + ') rotate(-90)'" text-anchor="middle">
          {{ ylabel }}</text>
        <g v-for="s in drawn" :class="{ dim: near && near.name !== s.name && !stems }">
          <template v-if="stems">
            <line v-for="p in s.points" :x1="X(p[0])" :x2="X(p[0])" :y1="Y(0)" :y2="Y(p[1])" :stroke="s.colour"
              class="stem"></line></template>
          <polyline v-else :points="s.points.map(p => X(p[0]) + ',' + Y(p[1])).join(' ')" fill="none"
            :stroke="s.colour" stroke-width="2" :stroke-dasharray="(s.dashes || []).map(d => 2 * d).join(' ')">
          </polyline>
          <path v-for="p in marked(s)" :d="s.marker" :stroke="s.colour" :fill="s.filled ? s.colour : 'var(--paper)'"
            :transform="'translate(' + X(p[0]) + ' ' + Y(p[1]) + ') scale(' + (s.size || (stems ? 3 : 4)) + ')'"
            stroke-width="0.4"></path>
        </g>
        <line v-for="l in levels" class="level" :x1="L" :x2="W - R" :y1="Y(l[1])" :y2="Y(l[1])"></line>
        <g v-if="near"><circle class="near" :cx="X(near.p[0])" :cy="Y(near.p[1])" r="8"></circle></g>
      </svg>
      <div class="tip" aria-live="polite">{{ near ? near.text : empty ? "" : hint }}</div>
      <figcaption class="legend"><span v-for="s in series" class="key">
        <svg viewBox="-2 -2 4 4" aria-hidden="true"><path :d="s.marker" :stroke="s.colour" stroke-width="0.4"
          :fill="s.filled ? s.colour : 'var(--paper)'"></path></svg>{{ s.name }}</span>
        <span v-for="l in levels" class="key"><svg viewBox="0 0 16 16" aria-hidden="true">
          <line class="level" x2="16" y1="8" y2="8"></line></svg>{{ l[0] }}</span></figcaption>
    </figure>`,
  props: {
    series: Array, xlabel: String, ylabel: String, xlog: Boolean, ylog: Boolean, stems: Boolean, alt: String,
    hint: String, levels: { type: Array, default: () => [] },
  },
  data: () => ({ near: null, W: 500, H: HEIGHT, L: LEFT, R: RIGHT, T: TOP, B: BOTTOM }),
  mounted() {
    // One unit is one pixel, so that words have the same size in charts of any width.
    this.watcher = new ResizeObserver(() => { this.W = Math.max(240, this.$refs.drawing.clientWidth); });
    this.watcher.observe(this.$refs.drawing);
  },
  unmounted() { this.watcher.disconnect(); },
  computed: {
    drawn() {
      const fits = (p) => p[1] !== null && (!this.xlog || p[0] > 0) && (!this.ylog || p[1] > 0);
      return (this.series || []).map((s) => ({ ...s, points: s.points.filter(fits) }));
    },
    empty() { return !this.drawn.some((s) => s.points.length); },
    xrange() { return this.range(0, this.xlog); },
    yrange() { return this.range(1, this.ylog); },
    xticks() { return this.ticks(this.xrange, this.xlog, Math.min(8, Math.floor(this.W / 70))); },
    yticks() { return this.ticks(this.yrange, this.ylog, 5); },
  },
  methods: {
    range(axis, log) {
      const all = this.drawn.flatMap((s) => s.points.map((p) => p[axis]));
      if (axis === 1) all.push(...this.levels.map((l) => l[1]));
      if (this.stems && axis === 1) all.push(0);
      if (this.empty) return [1, 2];
      let low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
      if (log) return low === high ? [low / 2, high * 2] : [low, high];
      const pad = low === high ? Math.max(1, Math.abs(low)) / 2 : axis === 1 ? (high - low) * 0.06 : 0;
      return [low - pad, high + pad];
    },
    scaled(value, [low, high], log) {
      return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    },
    X(value) { return LEFT + (this.W - LEFT - RIGHT) * this.scaled(value, this.xrange, this.xlog); },
    Y(value) { return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * this.scaled(value, this.yrange, this.ylog); },
    ticks([low, high], log, count) {
      const found = [];
      if (log) {
        const decades = Math.log10(high / low), steps = decades < 2 ? [1, 2, 5] : [1];
        const every = Math.max(1, Math.ceil(decades / count));
        if (decades < 0.7) return this.ticks([low, high], false, count);
        for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += every)
          for (const s of steps) if (s * 10 ** e >= low && s * 10 ** e <= high) found.push(s * 10 ** e);
        return found;
      }
      const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((s) => s * power >= rough);
      for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
      return found;
    },
    number(value) {
      if (value === 0) return "0";
      const size = Math.abs(value);
      return size < 1e-3 || size >= 1e5 ? value.toExponential(0) : String(+value.toPrecision(3));
    },
    marked(s) {
      if (this.stems) return s.points;
      const every = Math.max(1, Math.ceil(s.points.length / 10));
      return s.points.filter((_, i) => i % every === 0 || i === s.points.length - 1);
    },
    all() {
      return this.drawn.flatMap((s) => s.points.map((p) => ({ name: s.name, p, text: this.words(s, p) })));
    },
    words(s, p) {
      return p[2] || `${s.name}: ${this.xlabel} ${+p[0].toPrecision(3)}, ${this.ylabel} ${+p[1].toPrecision(4)}`;
    },
    point(event) {
      const box = event.currentTarget.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * this.W, y = ((event.clientY - box.top) / box.height) * HEIGHT;
      let best = 40;
      this.near = null;
      for (const one of this.all()) {
        const far = Math.hypot(this.X(one.p[0]) - x, this.Y(one.p[1]) - y);
        if (far < best) [best, this.near] = [far, one];
      }
    },
    key(event) {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], all = this.all();
      if (!step || !all.length) return;
      const now = this.near ? all.findIndex((o) => o.name === this.near.name && o.p === this.near.p) : -1;
      this.near = all[(now + step + all.length) % all.length];
      event.preventDefault();
    },
  },
};
