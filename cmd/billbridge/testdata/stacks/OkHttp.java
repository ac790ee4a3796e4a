import java.io.*;
import okhttp3.*;

// Posts each line "URL BODY" with OkHttp. Prints "STATUS REPLY", or "error" and what was thrown.
// With an argument OkHttp does not send a request again.
class OkHttp {
    public static void main(String[] args) throws IOException {
        var client = new OkHttpClient.Builder().retryOnConnectionFailure(args.length == 0).build();
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var call = line.split(" ", 2);
            var body = RequestBody.create(MediaType.parse("application/json"), call[1]);
            try (var reply = client.newCall(new Request.Builder().url(call[0]).post(body).build()).execute()) {
                System.out.println(reply.code() + " " + reply.body().string().replace('\n', ' '));
            } catch (Exception e) {
                System.out.println("error " + e.toString().replace('\n', ' '));
            }
        }
        System.exit(0); // its threads would keep Java running
    }
}
