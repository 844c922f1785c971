// Two pictures of one size on top of each other: a boundary to drag, zoom that moves both, a brush, and patches to click.
export default {
  template: `
    <div class="viewer">
      <div class="stage" ref="stage" :style="stageStyle" tabindex="0" role="group" :aria-label="label"
        :class="{ painting: paint }" @wheel.prevent="wheel" @keydown="key" @pointerdown="down" @pointermove="move"
        @pointerup="up" @pointercancel="up">
        <img v-if="before" class="layer" :src="before" :alt="beforeName" :style="world" draggable="false">
        <div v-if="after" class="layer clip" :style="{ clipPath: 'inset(0 0 0 ' + 100 * at + '%)' }">
          <img class="layer" :src="after" :alt="afterName" :style="world" draggable="false">
        </div>
        <div v-if="after" class="boundary" :style="{ left: 100 * at + '%' }"></div>
        <canvas v-show="paint" class="layer mask" ref="mask" :width="width" :height="height" :style="world"
          aria-label="painted mask"></canvas>
        <svg v-if="box" class="layer" :viewBox="'0 0 ' + width + ' ' + height" :style="world">
          <rect class="box" :x="box[0]" :y="box[1]" :width="box[2]" :height="box[2]"></rect>
        </svg>
        <span v-if="after" class="tag left">{{ beforeName }}</span>
        <span v-if="after" class="tag right">{{ afterName }}</span>
      </div>
      <div class="bar">
        <label v-if="after" class="grow">Boundary
          <input type="range" min="0" max="1" step="0.01" v-model.number="at" class="boundary-slider"
            :aria-label="'boundary between ' + beforeName + ' and ' + afterName">
        </label>
        <span v-else class="grow"></span>
        <button type="button" class="small" @click="zoom(1.5)" aria-label="zoom in">+</button>
        <button type="button" class="small" @click="zoom(1 / 1.5)" aria-label="zoom out">−</button>
        <button type="button" class="small" @click="reset" aria-label="whole picture">1:1</button>
      </div>
    </div>`,
  props: {
    before: String, after: String, beforeName: String, afterName: String, label: String,
    width: Number, height: Number, paint: Boolean, brush: Number, box: Array,
    sharp: Boolean,
  },
  data: () => ({ at: 0.5, scale: 1, x: 0, y: 0 }),
  computed: {
    // Positions are in shares of the stage, so that pictures of any size fit.
    world() {
      return {
        transform: `translate(${100 * this.x}%, ${100 * this.y}%) scale(${this.scale})`,
        imageRendering: this.sharp || this.scale > 2.5 ? "pixelated" : "auto",
      };
    },
    stageStyle() {
      const ratio = (this.width || 4) / (this.height || 3);
      return { aspectRatio: String(ratio), maxWidth: `calc(72vh * ${ratio})` };
    },
  },
  methods: {
    reset() { [this.scale, this.x, this.y] = [1, 0, 0]; },
    zoom(factor, u = 0.5, v = 0.5) {
      const scale = Math.min(Math.max(this.scale * factor, 1), 24);
      this.x = u - ((u - this.x) * scale) / this.scale;
      this.y = v - ((v - this.y) * scale) / this.scale;
      this.scale = scale;
      this.pan(0, 0);
    },
    pan(dx, dy) {
      this.x = Math.min(0, Math.max(1 - this.scale, this.x + dx));
      this.y = Math.min(0, Math.max(1 - this.scale, this.y + dy));
    },
    place(event) {
      const box = this.$refs.stage.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    },
    pixel(u, v) {
      return [((u - this.x) / this.scale) * this.width, ((v - this.y) / this.scale) * this.height];
    },
    wheel(event) { this.zoom(Math.exp(-event.deltaY / 400), ...this.place(event)); },
    key(event) {
      const moves = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
      if (event.key in moves) this.pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1.5);
      else if (event.key === "-") this.zoom(1 / 1.5);
      else if (event.key === "0") this.reset();
      else if (event.key === "Enter") this.$emit("pick", this.pixel(0.5, 0.5));
      else return;
      event.preventDefault();
    },
    down(event) {
      if (event.button) return;
      this.$refs.stage.setPointerCapture(event.pointerId);
      const [u, v] = this.place(event);
      const near = Math.abs(u - this.at) * this.$refs.stage.clientWidth < 24;
      this.drag = { u, v, far: false, kind: this.paint ? "paint" : this.after && near ? "boundary" : "pan" };
      if (this.paint) this.stroke(u, v, u, v);
    },
    move(event) {
      if (!this.drag) return;
      const [u, v] = this.place(event), { kind } = this.drag;
      if (Math.hypot(event.movementX, event.movementY) > 0) this.drag.far = true;
      if (kind === "paint") this.stroke(this.drag.u, this.drag.v, u, v);
      else if (kind === "boundary") this.at = Math.min(1, Math.max(0, u));
      else this.pan(u - this.drag.u, v - this.drag.v);
      [this.drag.u, this.drag.v] = [u, v];
    },
    up(event) {
      if (!this.drag) return;
      const { kind, far, u, v } = this.drag;
      this.drag = null;
      if (kind === "paint") this.$emit("mask", this.$refs.mask.toDataURL("image/png"));
      else if (!far) this.$emit("pick", this.pixel(u, v));
    },
    stroke(u0, v0, u1, v1) {
      const pen = this.$refs.mask.getContext("2d");
      pen.strokeStyle = "#d55e00";
      pen.lineWidth = this.brush;
      pen.lineCap = "round";
      pen.beginPath();
      pen.moveTo(...this.pixel(u0, v0));
      pen.lineTo(...this.pixel(u1, v1));
      pen.stroke();
    },
    clear() {
      const canvas = this.$refs.mask;
      canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
      this.$emit("mask", canvas.toDataURL("image/png"));
    },
  },
};
