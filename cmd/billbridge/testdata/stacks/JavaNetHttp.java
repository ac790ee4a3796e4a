import java.io.*;
import java.net.URI;
import java.net.http.*;

// Posts each line "URL BODY" with java.net.http. Prints "STATUS REPLY", or "error" and what was thrown.
class JavaNetHttp {
    public static void main(String[] args) throws IOException {
        var client = HttpClient.newHttpClient();
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var call = line.split(" ", 2);
            try {
                var request = HttpRequest.newBuilder(URI.create(call[0])).header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(call[1])).build();
                var reply = client.send(request, HttpResponse.BodyHandlers.ofString());
                System.out.println(reply.statusCode() + " " + reply.body().replace('\n', ' '));
            } catch (Exception e) {
                System.out.println("error " + e.toString().replace('\n', ' '));
            }
        }
    }
}
