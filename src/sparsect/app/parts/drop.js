// A place to drop photographs. The contents are sent, the names of the files are not.
export default {
  template: `
    <label class="drop" :class="{ over }" @dragover.prevent="over = true" @dragleave="over = false"
      @drop.prevent="dropped">
      <input type="file" :accept="accept" :multiple="multiple" @change="chosen" :aria-label="label">
      <span>{{ busy ? "Sending …" : label }}</span>
    </label>`,
  props: { url: String, label: String, multiple: Boolean, accept: String },
  data: () => ({ over: false, busy: false }),
  methods: {
    dropped(event) { this.over = false; this.send(event.dataTransfer.files); },
    async chosen(event) { await this.send(event.target.files); event.target.value = ""; },
    async send(files) {
      this.busy = true;
      for (const file of Array.from(files).slice(0, this.multiple ? 24 : 1)) {
        try {
          const answer = await fetch(this.url, { method: "POST", body: file });
          if (!answer.ok) this.$emit("refused", await answer.text());
        } catch (error) {
          this.$emit("refused", "The file could not be sent.");
        }
      }
      this.busy = false;
    },
  },
};
