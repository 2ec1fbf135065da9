window.addEventListener('error', (event) => {
  // A resize that is delivered one frame later: nothing has failed.
  if (event.message.startsWith('ResizeObserver loop')) return;
  document.documentElement.dataset.error = event.message;
  const banner = document.getElementById('failure');
  if (!banner) return;
  banner.hidden = false;
  banner.textContent = `This page failed to draw: ${event.message}`;
});
