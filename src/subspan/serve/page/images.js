// Images by choosing, dropping, pasting and the camera; folders with all that is below them.

import { byId, button, element, say } from "./base.js";

/** A picture of a file; the address is given back when the picture is removed. */
export function picture(file, description) {
  return element("img", { alt: description, loading: "lazy", decoding: "async", src: URL.createObjectURL(file) });
}

export function forget(holder) {
  for (const image of holder.querySelectorAll("img")) URL.revokeObjectURL(image.src);
  holder.remove();
}

const takers = {};
const isImage = (file) => /\.(jpe?g|png|webp|gif|bmp)$/i.test(file.name);

const inOrder = (files) => files.sort((a, b) => pathOf(a).localeCompare(pathOf(b), undefined, { numeric: true }));

/** The images that a folder holds, each with its path as `path`. */
async function imagesBelow(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return isImage(file) ? [Object.assign(file, { path: entry.fullPath.slice(1) })] : [];
  }
  const reader = entry.createReader(), found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    for (const one of some) found.push(...(await imagesBelow(one)));
  }
}

async function dropped(transfer) {
  const files = [...transfer.files];
  const folders = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry?.isDirectory);
  const plain = files.filter((file) => !folders.some((folder) => folder.name === file.name));
  return [...plain, ...inOrder((await Promise.all(folders.map(imagesBelow))).flat())];
}

export const pathOf = (file) => file.path || file.webkitRelativePath || file.name;

/** The name of the folder an image lies in; empty where it lies in none. */
export const folderOf = (file) => pathOf(file).split("/").at(-2) ?? "";

/** Let a zone take images in every way, and give them to the taker. */
export function takeImages(zone, taker) {
  takers[zone] = taker;
  const place = document.querySelector(`[data-zone="${zone}"]`);
  for (const input of place.querySelectorAll("input")) {
    input.addEventListener("change", () => {
      taker(input.webkitdirectory ? inOrder([...input.files].filter(isImage)) : [...input.files]);
      input.value = "";
    });
  }
  const over = (on) => (event) => {
    event.preventDefault();
    place.classList.toggle("over", on);
  };
  place.addEventListener("dragover", over(true));
  place.addEventListener("dragleave", over(false));
  place.addEventListener("drop", async (event) => {
    over(false)(event);
    taker(await dropped(event.dataTransfer));
  });
  const camera = place.querySelector(".camera");
  if (!camera) return;
  camera.hidden = navigator.maxTouchPoints === 0; // a phone has a camera of its own to offer
  if (camera.hidden && navigator.mediaDevices?.getUserMedia) camera.after(button("Camera", "", () => takePicture(taker), "quiet"));
}

/** Pasted images go where the keyboard is: to adding if it is there, else to classifying. */
export function paste(event) {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  event.preventDefault();
  takers[byId("add").contains(document.activeElement) ? "add" : "classify"](files);
}

// The camera of a desktop: a still, to be confirmed

let takeStill = () => {};

async function takePicture(taker) {
  const dialog = byId("camera-dialog"), video = byId("camera-video"), still = byId("camera-still");
  const show = (taken) => {
    video.hidden = taken;
    still.hidden = byId("camera-use").hidden = !taken;
    byId("camera-take").textContent = taken ? "Again" : "Take the picture";
  };
  show(false);
  say("camera-status", "Waiting for the camera …");
  byId("camera-take").disabled = true;
  dialog.showModal();
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 1280 } } });
    const stop = () => stream.getTracks().forEach((track) => track.stop());
    if (!dialog.open) return stop();
    dialog.addEventListener("close", stop, { once: true });
    video.srcObject = stream;
    await video.play();
    say("camera-status", "");
    byId("camera-take").disabled = false;
    byId("camera-take").focus();
  } catch {
    return say("camera-status", "The camera cannot be used: it is missing, taken, or this page may not see it.", true);
  }
  takeStill = () => {
    const again = !still.hidden;
    if (!again) {
      [still.width, still.height] = [video.videoWidth, video.videoHeight];
      still.getContext("2d").drawImage(video, 0, 0);
    }
    show(!again);
    byId(again ? "camera-take" : "camera-use").focus();
  };
  byId("camera-use").onclick = () => {
    still.toBlob((blob) => taker([new File([blob], `camera ${new Date().toLocaleTimeString()}.jpg`, { type: "image/jpeg" })]), "image/jpeg", 0.95);
    dialog.close();
  };
}

export function startCamera() {
  byId("camera-take").addEventListener("click", () => takeStill());
  byId("camera-cancel").addEventListener("click", () => byId("camera-dialog").close());
}
