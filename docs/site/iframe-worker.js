// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Browsers start no worker from a file: address. There, the search of Material runs in a hidden frame of the same page, behind
// the interface of a worker. Material's script for searching recognizes the frame by the name IFrameWorker in its parent.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];  // messages that come before the script has run
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow, page = inside.document;
      page.open();
      page.write("<!doctype html><title>search</title><body>");
      page.close();
      inside.postMessage = data => this.receive(data);
      inside.importScripts = async (...urls) => {
        for (const each of urls) await this.load(each);
      };
      this.load(new URL(url, location.href).href).then(() => {
        const messages = this.waiting;
        this.waiting = null;
        messages.forEach(data => this.postMessage(data));
      });
    }
    // Runs a script in the frame.
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentWindow.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${url}`));
        this.frame.contentWindow.document.body.appendChild(script);
      });
    }
    // What the script posts.
    receive(data) {
      const event = new MessageEvent("message", {data});
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    // What the page posts to the script.
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new this.frame.contentWindow.MessageEvent("message", {data}));
    }
    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
